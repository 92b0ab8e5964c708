"""Goals of plans, on the runs of Mercury's."""

from __future__ import annotations

from typing import Any

from lab.tests.bench.mercury.test_mercury_figures import run_of
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.experiment.goals import Runs, answers
from quicksilver_lab.bench.experiment.plan import load


def answered(runs: Runs) -> dict[str, dict[str, Any]]:
    return answers(load("mercury").goals, runs, lambda workload: workload == "fixed_2s")


def many(rates: dict[str, list[int]]) -> dict[tuple[str, str], list[RunResult]]:
    """Return runs with so many ends in the window, by competitor and in the order of seeds."""
    return {
        ("fixed_2s", name): [
            run_of(name, [10 + 9.9 * at / count for at in range(count)], seed) for seed, count in enumerate(counts, 1)
        ]
        for name, counts in rates.items()
    }


def test_goals_pair_seeds_and_take_the_best_of_hadoops_own() -> None:
    runs = many(
        {
            "only_g_tuned": [10, 20],
            "opportunistic": [12],
            "opportunistic_deep": [15, 30],
            "quicksilver_only_q": [15, 30],
        }
    )
    found = answered(runs)
    assert found["tasks_ratio_opportunistic"]["value"] == found["p95_ratio_only_g_tuned"]["value"] == 1.0
    assert "hybrid_ratio_only_g" not in found
    tuned, best = (found[f"tasks_ratio_{name}"] for name in ("only_g_tuned", "opportunistic"))
    ratio = {"value": 1.5, "ci_low": 1.5, "ci_high": 1.5, "pairs": 2}
    assert tuned == tuned | ratio | {"goal": 1.4, "at_most": False, "met": True}
    assert tuned["ceiling"] == 1.3333  # 3 of 4 slots are used
    assert (best["theirs"], best["met"]) == ("opportunistic_deep", False)


def test_one_seed_has_a_ratio_without_an_interval() -> None:
    found = answered(many({"only_g_tuned": [10], "quicksilver_only_q": [13]}))
    assert found["tasks_ratio_only_g_tuned"]["value"] == 1.3
    assert "ci_low" not in found["tasks_ratio_only_g_tuned"]
    assert not found["tasks_ratio_only_g_tuned"]["met"]


def test_latency_goals_are_met_from_below() -> None:
    goal = next(goal for goal in load("mercury").goals if goal.key == "p95_ratio_opportunistic")
    assert goal.met(0.9)
    assert not goal.met(1.1)
