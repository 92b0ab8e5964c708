"""Competitors against each other, paired by seed: the keys of the result, and Mercury's goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from quicksilver.report.stats import effect
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.mercury.competitors import OWN_OPPORTUNISTIC
from quicksilver_lab.bench.mercury.figures import figures, summary
from quicksilver_lab.bench.mercury.phases import phases

FIXED, HYBRID, STRAGGLERS = "fixed_2s", "hybrid", "stragglers"
BEST_OPPORTUNISTIC: Final = "the best of Hadoop's own opportunistic ones"

Runs = Mapping[tuple[str, str], Sequence[RunResult]]
"""By workload and competitor, in the order of their seeds."""


@dataclass(frozen=True, slots=True)
class ComparedGoal:
    """A ratio candidate / base of a metric that is to reach a target, by the key of the result."""

    key: str
    workload: str
    candidate: str
    base: str
    metric: str
    target: float
    source: str

    @property
    def at_most(self) -> bool:
        """Whether less is better: latencies."""
        return self.metric.endswith("_s") and "per_s" not in self.metric

    def met(self, ratio: float) -> bool:
        """Return whether a ratio reaches the target."""
        return ratio <= self.target if self.at_most else ratio >= self.target


_Q, _PLAIN, _HYBRID = "quicksilver_only_q", "quicksilver_only_q_plain", "quicksilver_hybrid"
GOALS: Final = (
    ComparedGoal("tasks_ratio_only_g_tuned", FIXED, _Q, "only_g_tuned", "tasks_per_s", 1.40, "Mercury §7.3, Fig. 9"),
    ComparedGoal("tasks_ratio_opportunistic", FIXED, _Q, BEST_OPPORTUNISTIC, "tasks_per_s", 1.20, "own"),
    ComparedGoal("p95_ratio_only_g_tuned", FIXED, _Q, "only_g_tuned", "latency_p95_s", 1.0, "own"),
    ComparedGoal("p95_ratio_opportunistic", FIXED, _Q, BEST_OPPORTUNISTIC, "latency_p95_s", 1.0, "own"),
    ComparedGoal(
        "hybrid_ratio_only_g", HYBRID, _HYBRID, "only_g_tuned", "tasks_per_s", 1.29, "Mercury §7.4.1, Fig. 10"
    ),
    ComparedGoal("hybrid_ratio_only_q", HYBRID, _HYBRID, _Q, "tasks_per_s", 1.12, "Mercury §7.4.1, Fig. 10"),
    ComparedGoal(
        "stragglers_ratio_plain", STRAGGLERS, _PLAIN, "only_g_tuned", "tasks_per_s", 1.085, "Mercury §7.2.3, Fig. 7"
    ),
    ComparedGoal(
        "stragglers_ratio_corrected", STRAGGLERS, _Q, "only_g_tuned", "tasks_per_s", 1.398, "Mercury §7.2.3, Fig. 7"
    ),
)


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


def paired(own_runs: Sequence[RunResult], other_runs: Sequence[RunResult], metric: str) -> dict[str, Any] | None:
    """Return the ratio own / other of a metric over the seeds that both have, None where they have none.

    With two seeds or more: the geometric mean with its 95 % interval by Student's t; with one: the ratio alone.
    """
    own_values, other_values = (
        {run.seed: figures(run).get(metric, 0.0) for run in runs} for runs in (own_runs, other_runs)
    )
    pairs = [
        (other_values[seed], own_values[seed]) for seed in own_values if own_values[seed] and other_values.get(seed)
    ]
    if not pairs:
        return None
    if len(pairs) == 1:
        return {"ratio": round(pairs[0][1] / pairs[0][0], 4), "pairs": 1}
    result = effect([base for base, _ in pairs], [changed for _, changed in pairs])
    return {"ratio": result["effect"], "ci_low": result["ci_low"], "ci_high": result["ci_high"], "pairs": len(pairs)}


def ceiling(theirs: Sequence[RunResult]) -> float | None:
    """Return the ratio of tasks/s that no scheduler can exceed: that of one whose slots are never idle.

    So much more work fits into the slots that the others leave idle. Only where all tasks are alike: of a mix, more
    short ones may end within a window. None without samples.
    """
    used = fmean(figures(run)["utilisation"] for run in theirs)
    return round(1 / used, 4) if used else None


def goals(runs: Runs) -> dict[str, dict[str, Any]]:
    """Return each goal that the runs can answer: ratio, interval, ceiling, target, if it is met, who was compared."""
    answers: dict[str, dict[str, Any]] = {}
    for goal in GOALS:
        theirs = best_opportunistic(runs, goal.workload) if goal.base == BEST_OPPORTUNISTIC else goal.base
        answer = paired(
            runs.get((goal.workload, goal.candidate), ()), runs.get((goal.workload, theirs or ""), ()), goal.metric
        )
        if answer is not None:
            if goal.metric == "tasks_per_s" and goal.workload == FIXED:
                answer["ceiling"] = ceiling(runs[goal.workload, theirs or ""])
            answers[goal.key] = answer | {
                "target": goal.target,
                "met": goal.met(answer["ratio"]),
                "ours": goal.candidate,
                "theirs": theirs,
                "workload": goal.workload,
                "metric": goal.metric,
                "source": goal.source,
            }
    return answers


def result(runs: Runs) -> dict[str, Any]:
    """Return the keys of the result: the goals' ratios, lost and doubled tasks over all runs, the table."""
    every = [run for repeated in runs.values() for run in repeated]
    answered = goals(runs)
    return {
        **{goal.key: answered.get(goal.key, {}).get("ratio") for goal in GOALS},
        "lost_tasks": sum(run.counts.get("lost", 0) for run in every),
        "doubled_tasks": sum(run.counts.get("doubled", 0) for run in every),
        "runs": len(every),
        "goals": answered,
        "workloads": _table(runs),
    }


def _table(runs: Runs) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for (workload, competitor), repeated in runs.items():
        if repeated:
            table.setdefault(workload, {})[competitor] = summary(repeated) | {"phases": phases(repeated)}
    return table
