"""Goals of a plan: ratios of two competitors on a workload, paired by seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator

from policies.errors import close_to
from policies.settings_model import SettingsModel
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.mercury.competitors import BY_NAME, OWN_OPPORTUNISTIC
from quicksilver_lab.bench.mercury.figures import figures
from quicksilver_lab.bench.mixes.compare import ratio

BEST: Final = "best_opportunistic"
"""In place of a competitor's name: the best of Hadoop's own opportunistic ones."""


def known(kind: str, names: Collection[str]) -> AfterValidator:
    """Return a check that a name is one of these."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"no {kind} is named {name}; {close_to(name, list(names))}")
        return name

    return AfterValidator(check)


Runner = Annotated[str, known("competitor", (*BY_NAME, BEST))]
Runs = Mapping[tuple[str, str], Sequence[RunResult]]
"""By workload and competitor, in the order of their seeds."""


class ComparedGoal(SettingsModel):
    """A ratio candidate / base of a figure of the window that is to reach a target."""

    key: str
    """Its name in the result."""
    workload: str
    candidate: Runner
    base: Runner
    metric: Literal["tasks_per_s", "jobs_per_s", "latency_p50_s", "latency_p95_s", "latency_mean_s", "wait_p50_s"]
    target: float
    source: str
    """Who says so."""

    @property
    def at_most(self) -> bool:
        """Whether less is better: latencies."""
        return "per_s" not in self.metric

    def met(self, ratio: float) -> bool:
        """Return whether a ratio reaches the target."""
        return ratio <= self.target if self.at_most else ratio >= self.target


def best_opportunistic(runs: Runs, workload: str) -> str | None:
    """Return which of Hadoop's own opportunistic variants had the most tasks/s in the runs' first seed; None of none.

    All of them run with the first seed; only the best of them goes on, so that chance favours it.
    """
    rates = {
        name: figures(repeated[0])["tasks_per_s"]
        for name in OWN_OPPORTUNISTIC
        if (repeated := runs.get((workload, name)))
    }
    return max(rates, key=lambda name: rates[name]) if rates else None


def ceiling(runs: Sequence[RunResult]) -> float | None:
    """Return the ratio of tasks/s to these runs that no scheduler can exceed: that of one whose slots are never idle.

    So much more work fits into the slots that the others leave idle. Only where all tasks are alike: of a mix, more
    short ones may end within a window. None without samples.
    """
    used = fmean(figures(run)["utilisation"] for run in runs)
    return round(1 / used, 4) if used else None


def answers(goals: Iterable[ComparedGoal], runs: Runs, alike: Callable[[str], bool]) -> dict[str, dict[str, Any]]:
    """Return each goal that the runs can answer: ratio, interval, ceiling, target, if it is met, who was compared.

    alike: returns whether all tasks of a workload are.
    """
    result: dict[str, dict[str, Any]] = {}
    for goal in goals:
        theirs = best_opportunistic(runs, goal.workload) if goal.base == BEST else goal.base
        own, base = (
            [{"seed": run.seed} | figures(run) for run in runs.get((goal.workload, name or ""), ())]
            for name in (goal.candidate, theirs)
        )
        answer = ratio(own, base, goal.metric)
        if answer is None:
            continue
        if goal.metric == "tasks_per_s" and alike(goal.workload):
            answer["ceiling"] = ceiling(runs[goal.workload, theirs or ""])
        value = answer.pop("ratio")
        result[goal.key] = {"value": value, **answer} | {
            "goal": goal.target,
            "at_most": goal.at_most,
            "met": goal.met(value),
            "ours": goal.candidate,
            "theirs": theirs,
            "workload": goal.workload,
            "metric": goal.metric,
            "source": goal.source,
        }
    return result
