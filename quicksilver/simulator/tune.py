"""Which settings are best for a goal: many on few seeds, the better half on twice as many, and so on.

The best of them is compared with the settings as they are on seeds that nothing was chosen by: what is lucky in the
search is not lucky there, and the confidence interval holds (successive halving: Jamieson, Talwalkar, AISTATS '16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Final

from quicksilver.report.cells import number
from quicksilver.report.model import ReportEstimate
from quicksilver.simulator.figures import HIGHER_IS_BETTER, PERCENTILES
from quicksilver.simulator.results import compared
from quicksilver.simulator.run import Row
from quicksilver.simulator.sweep import Case, StudyError, Variant

FIRST_SEEDS: Final = 2
FRESH: Final = 1_000_001
"""The first seed of the comparison at the end."""
GOALS: Final[Mapping[str, str]] = {"mean": "mean_all"}
"""Names of goals that are not those of figures."""

WHOLE: Final = ("makespan", *sorted(HIGHER_IS_BETTER))
"""Figures of a whole run."""
KINDS: Final = ("mean", *(f"p{q}" for q in PERCENTILES), "wait")
"""Figures of each class."""

Run = Callable[[Sequence[Case]], list[Row]]


@dataclass(frozen=True, slots=True)
class TuneStanding:
    """One candidate in one round. value: the mean of the goal over the round's seeds."""

    label: str
    value: float
    survivor: bool


@dataclass(frozen=True, slots=True)
class Round:
    """One round of the search."""

    seeds: int
    standings: Sequence[TuneStanding]
    """The best first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the search found."""

    goal: str
    present: Variant
    """The settings as they are."""
    best: Variant
    rounds: Sequence[Round]
    ratio: ReportEstimate | float | None
    """Of the goal, best to present, on fresh seeds; None where the best is the present one, or the goal was 0."""
    seeds: int
    """Fresh seeds that were compared."""
    chance: bool
    """Whether seeds made any difference."""
    rows: Sequence[Row]
    """Of the comparison."""

    @property
    def significant(self) -> bool:
        """Whether the best is better beyond doubt: its interval leaves out 1, to the right side."""
        if self.ratio is None or self.best is self.present:
            return False
        low, high = _bounds(self.ratio)
        return low > 1 if self.goal in HIGHER_IS_BETTER else high < 1

    def words(self) -> str:
        """Return what to do, in one sentence or two."""
        if self.best is self.present:
            return f"Nothing was better in {self.goal} than the settings as they are: keep them."
        if self.ratio is None:
            return f"{self.goal} is 0 in some runs: nothing can be said of its ratio; choose another goal."
        low, high = map(number, _bounds(self.ratio))
        value = number(self.ratio.value if isinstance(self.ratio, ReportEstimate) else self.ratio)
        change = f"{self.goal} is {value} of what it is now ({low} to {high}, {self.seeds} fresh seeds)"
        if not self.significant:
            return (
                f"Nothing is significantly better in {self.goal}: the best found, {self.best.label}: {change}. "
                "Keep the settings as they are, or try more seeds."
            )
        if not self.chance:
            return (
                f"Use {self.best.label}: {change}. No seed made a difference, so this says nothing of other days: "
                "give --sample 0.8, or other traces."
            )
        return f"Use {self.best.label}: {change}."


def _bounds(ratio: ReportEstimate | float) -> tuple[float, float]:
    return (ratio.low, ratio.high) if isinstance(ratio, ReportEstimate) else (ratio, ratio)


def tune(present: Variant, candidates: Sequence[Variant], goal: str, seeds: int, run: Run) -> Verdict:
    """Search among the candidates and the settings as they are.

    goal: a figure's name, or one of GOALS; seeds: of the comparison at the end (2 or more), and the most of a round.
    run: returns the rows of cases, in their order. Raises StudyError when no run has such a figure.
    """
    goal = goal_of(goal)
    alive = list({variant.key: variant for variant in (present, *candidates)}.values())
    rounds: list[Round] = []
    chance, count = False, FIRST_SEEDS
    while len(alive) > 1:
        measures = _measured(alive, range(1, count + 1), goal, run)
        chance = chance or any(len(set(values)) > 1 for values in measures.values())
        alive, standing = _halved(alive, measures, goal)
        rounds.append(Round(count, standing))
        count = min(2 * count, max(seeds, FIRST_SEEDS)) if chance else count
    best = alive[0] if alive[0].key != present.key else present
    if best is present:
        return Verdict(goal, present, present, rounds, None, 0, chance, [])
    seeds = seeds if chance else FIRST_SEEDS
    fresh = range(FRESH, FRESH + seeds)
    rows = run([Case(variant, seed) for seed in fresh for variant in (present, best)])
    ratio = compared(rows[::2], rows[1::2], goal)
    return Verdict(goal, present, best, rounds, ratio, seeds, chance, rows)


def goal_of(name: str) -> str:
    """Return the figure that a goal is. Raises StudyError where no figure can be named so."""
    goal = GOALS.get(name, name)
    kind, _, klass = goal.partition("_")
    if goal not in WHOLE and not (kind in KINDS and klass):
        known = ", ".join((*GOALS, *WHOLE, *(f"{kind}_short" for kind in KINDS)))
        raise StudyError(f"no figure is named '{name}'", place="--goal", remedy=f"choose from {known}, or _long, _all")
    return goal


def has(row: Row, goal: str) -> None:
    """Raises StudyError when a run has no such figure, which may be of a class that it has no jobs of."""
    if goal not in row.figures.metrics:
        known = ", ".join([*GOALS, *row.figures.metrics])
        raise StudyError(f"no run has a figure '{goal}'", place="--goal", remedy=f"choose from {known}")


def _measured(alive: Sequence[Variant], seeds: Sequence[int], goal: str, run: Run) -> dict[str, list[float]]:
    rows = run([Case(variant, seed) for seed in seeds for variant in alive])
    measures: dict[str, list[float]] = {}
    for row, variant in zip(rows, list(alive) * len(seeds), strict=True):
        has(row, goal)
        measures.setdefault(variant.key, []).append(row.figures.metrics[goal])
    return measures


def _halved(
    alive: Sequence[Variant], measures: Mapping[str, Sequence[float]], goal: str
) -> tuple[list[Variant], list[TuneStanding]]:
    """Return the better half, and how all stand. Who stands alike stays in the order given: the present one first."""
    positive = all(value > 0 for values in measures.values() for value in values)
    sign = -1 if goal in HIGHER_IS_BETTER else 1

    def score(variant: Variant) -> float:
        return sign * fmean(log(value) if positive else value for value in measures[variant.key])

    ranked = sorted(alive, key=score)
    survivors = ranked[: (len(ranked) + 1) // 2] if len(ranked) > 2 else ranked[:1]
    return survivors, [
        TuneStanding(variant.label, fmean(measures[variant.key]), variant in survivors) for variant in ranked
    ]
