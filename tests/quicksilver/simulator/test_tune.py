"""The search for settings: who goes on, what is compared at the end, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from quicksilver.simulator.figures import Figures
from quicksilver.simulator.run import Row
from quicksilver.simulator.sweep import Case, StudyError, Variant
from quicksilver.simulator.tune import FRESH, Verdict, tune


def variant(k: int) -> Variant:
    return Variant(f"x k={k}", "x", "x:S", {"k": k}, {"k": k}, {"k": k})


class World:
    """Runs that take what `value` says."""

    def __init__(self, value: Callable[[int, Random], float]) -> None:
        self.value = value
        self.asked: list[list[tuple[int, int]]] = []

    def __call__(self, cases: Sequence[Case]) -> list[Row]:
        self.asked.append([(case.variant.settings["k"], case.seed) for case in cases])
        return [self.row(case) for case in cases]

    def row(self, case: Case) -> Row:
        value = self.value(case.variant.settings["k"], Random(f"{case.seed}"))
        metrics = {"mean_all": value, "throughput": value}
        figures = Figures(metrics, {}, [], {}, {}, {})
        return Row(case.variant.label, "x", dict(case.variant.settings), {}, case.seed, figures, 0.0)


def search(value: Callable[[int, Random], float], goal: str = "mean", seeds: int = 8) -> tuple[Verdict, World]:
    world = World(value)
    return tune(variant(0), [variant(k) for k in range(8)], goal, seeds, world), world


def test_the_better_half_goes_on_with_twice_the_seeds_and_the_best_is_compared_on_fresh_ones() -> None:
    verdict, world = search(lambda k, rng: 100.0 + abs(k - 5) + rng.random() / 10)
    ks = [{k for k, _ in asked} for asked in world.asked]
    assert ks == [set(range(8)), {3, 4, 5, 6}, {4, 5}, {0, 5}]
    seeds = [sorted({seed for _, seed in asked}) for asked in world.asked]
    assert [len(one) for one in seeds] == [2, 4, 8, 8]
    assert min(seeds[-1]) == FRESH > max(seeds[-2])
    assert [standing.label for standing in verdict.rounds[1].standings][:1] == ["x k=5"]
    assert [standing.survivor for standing in verdict.rounds[1].standings] == [True, True, False, False]
    assert verdict.significant
    assert verdict.words().startswith("Use x k=5: mean_all is 0.952 of what it is now (0.952 to 0.952, 8 fresh seeds)")


def test_the_higher_the_better_where_it_is_so() -> None:
    verdict, _ = search(lambda k, rng: 100.0 + k + rng.random(), "throughput")
    assert (verdict.best.label, verdict.significant) == ("x k=7", True)


def test_luck_is_not_taken_for_better() -> None:
    """All are alike: of ten searches, the interval is right about nine."""
    claims = 0
    for trial in range(40):
        world = World(lambda k, rng, trial=trial: Random(f"{trial} {k} {rng.random()}").uniform(50, 150))  # type: ignore[misc]
        verdict = tune(variant(0), [variant(k) for k in range(1, 8)], "mean", 8, world)
        claims += verdict.significant
        assert (
            verdict.significant or "Keep the settings as they are" in verdict.words() or verdict.best is verdict.present
        )
    assert claims <= 4


def test_nothing_better_is_said() -> None:
    verdict, world = search(lambda k, rng: 100.0 + k + rng.random())
    assert verdict.best is verdict.present and not verdict.significant
    assert verdict.words() == "Nothing was better in mean_all than the settings as they are: keep them."
    assert {k for k, _ in world.asked[-1]} == {0, 1}


def test_without_chance_a_few_seeds_do_and_it_is_said_what_is_not_known() -> None:
    verdict, world = search(lambda k, rng: 100.0 - k)
    assert [len({seed for _, seed in asked}) for asked in world.asked] == [2, 2, 2, 2]
    assert verdict.significant
    assert "says nothing of other days" in verdict.words()


def test_a_goal_of_zero_has_no_ratio() -> None:
    verdict, _ = search(lambda k, rng: float(k != 3))
    assert (verdict.best.label, verdict.ratio, verdict.significant) == ("x k=3", None, False)
    assert "choose another goal" in verdict.words()


def test_an_unknown_goal_is_refused_with_those_there_are() -> None:
    with pytest.raises(StudyError, match="--goal: no run has a figure 'p95_shrt'; choose from mean, mean_all, through"):
        search(lambda k, rng: 1.0, "p95_shrt")


@pytest.mark.parametrize("goal", ["", "foo", "jobs_all", "p95", "p96_short", "mean_"])
def test_what_no_figure_is_named_is_refused_before_any_run(goal: str) -> None:
    def nothing_is_run(k: int, rng: Random) -> float:
        raise AssertionError(k)

    with pytest.raises(StudyError, match=f"--goal: no figure is named '{goal}'; choose from mean, makespan"):
        search(nothing_is_run, goal)
