"""What the default has to reach on the mixes, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quicksilver_lab.bench.mixes.compare import Figures, class_means, mean, ratio
from quicksilver_lab.bench.mixes.figures import LATENCIES, SHORT, WIDE

GAIN: Final = 0.8
NOT_WORSE: Final = 1.02
WORK_LOST: Final = 0.01
CEILING_SHARE: Final = 0.95
MICROSOFT: Final = 1.10
RATIOS: Final[Mapping[str, Mapping[str, float]]] = {
    "facebook_77": {"latency_mean_s": 0.87, "latency_p50_s": 0.85, "latency_p95_s": 0.96},
    "facebook_95": dict.fromkeys(SHORT, 0.3),
    "yahoo": dict.fromkeys(SHORT, 0.3),
    "google": dict.fromkeys(SHORT, 0.3),
}
"""By mix, ratios to the best stock competitor."""
KAIROS: Final[Mapping[str, float]] = {"latency_p50_s": 0.27, "latency_p99_s": 0.70}
"""kairos: ratios to YARN FIFO, which the Capacity Scheduler is within a queue."""
WORST_CLASS: Final = 1.2
"""kairos: mean latency of the worst class / that under FIFO."""
LAS: Final = "quicksilver_kairos"
"""kairos: the preset after the paper has the same goals as the default."""
TUNED: Final = "only_g_tuned"
TO_TUNED: Final = 0.70
"""facebook_77: mean latency / that of the tuned Capacity Scheduler."""


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """A goal and what was reached."""

    value: float
    goal: float
    at_most: bool = True

    def shown(self) -> dict[str, Any]:
        """Return it as the result has it."""
        met = self.value <= self.goal if self.at_most else self.value >= self.goal
        return {"value": round(self.value, 4), "goal": self.goal, "at_most": self.at_most, "met": met}


def goals(
    mix: str, figures: Figures, competitor: str, compared: Mapping[str, Any], slots: int
) -> dict[str, dict[str, Any]]:
    """Return the goals of a mix by name, as far as its runs have the figures.

    compared: what `compare.compared` has of the competitor.
    """
    verdicts: dict[str, GoalVerdict] = {}
    for metric in LATENCIES:
        comparison = compared.get(metric)
        if comparison and comparison.get("gain") is not None:
            verdicts[f"{metric}_gain"] = GoalVerdict(comparison["gain"], GAIN, at_most=False)
    limits = dict.fromkeys((*LATENCIES, *SHORT, WIDE), NOT_WORSE) | {"makespan_s": 1.0} | dict(RATIOS.get(mix, {}))
    for metric, limit in limits.items():
        if comparison := compared.get(metric):
            verdicts[f"{metric}_ratio"] = GoalVerdict(comparison["ratio"], limit)
    runs = figures.get(competitor, ())
    if runs:
        verdicts["work_lost_ratio"] = GoalVerdict(max(run["work_lost_ratio"] for run in runs), WORK_LOST)
        verdicts["unfinished_jobs"] = GoalVerdict(float(sum(run["unfinished_jobs"] for run in runs)), 0.0)
    verdicts |= _own(mix, figures, competitor, slots)
    return {f"{mix}.{name}": verdict.shown() for name, verdict in verdicts.items()}


def _own(mix: str, figures: Figures, competitor: str, slots: int) -> dict[str, GoalVerdict]:
    """Return the goals that one mix alone has."""
    runs = figures.get(competitor, ())
    tuned = figures.get(TUNED, ())
    verdicts: dict[str, GoalVerdict] = {}
    if mix == "facebook_77" and (comparison := ratio(runs, tuned, "latency_mean_s")):
        verdicts["latency_mean_s_ratio_tuned"] = GoalVerdict(comparison["ratio"], TO_TUNED)
    if mix == "microsoft" and (comparison := ratio(runs, tuned, "tasks_per_s")):
        verdicts["tasks_ratio_tuned"] = GoalVerdict(comparison["ratio"], MICROSOFT, at_most=False)
    if mix == "kairos":
        verdicts |= _to_fifo(figures, competitor)
        if competitor != LAS and figures.get(LAS):
            verdicts |= {f"{LAS}.{name}": verdict for name, verdict in _to_fifo(figures, LAS).items()}
    if mix == "fixed_2s" and (rate := mean(runs, "tasks_per_s")):
        verdicts["ceiling_share"] = GoalVerdict(rate / (slots / 2.0), CEILING_SHARE, at_most=False)
    return verdicts


def _to_fifo(figures: Figures, name: str) -> dict[str, GoalVerdict]:
    """Return the goals of kairos for one competitor."""
    runs, fifo = figures.get(name, ()), figures.get(TUNED, ())
    verdicts = {
        f"{metric}_ratio_fifo": GoalVerdict(comparison["ratio"], limit)
        for metric, limit in KAIROS.items()
        if (comparison := ratio(runs, fifo, metric))
    }
    means, others = class_means(runs, "classes"), class_means(fifo, "classes")
    if means and means.keys() <= others.keys():
        worst = max(mean_s / others[klass] for klass, mean_s in means.items())
        verdicts["worst_class_ratio_fifo"] = GoalVerdict(worst, WORST_CLASS)
    return verdicts


def least_ratios(mix: str, figures: Figures) -> dict[str, float]:
    """Return the lowest ratios to FIFO that any scheduler could reach on kairos: those of a slot for each task."""
    if mix != "kairos":
        return {}
    endless, fifo = figures.get("bound_endless", ()), figures.get(TUNED, ())
    return {
        f"{metric}_ratio_fifo": comparison["ratio"] for metric in KAIROS if (comparison := ratio(endless, fifo, metric))
    }


def ceilings(figures: Figures, stock: str, slots: int, task_s: float | None) -> dict[str, float]:
    """Return what no scheduler exceeds: tasks/s where all tasks take task_s, and throughput / that of `stock`.

    So much more work fits into the slots that the other leaves idle.
    """
    result = {"tasks_per_s": round(slots / task_s, 3)} if task_s else {}
    used = mean(figures.get(stock, ()), "utilisation")
    return result | ({"throughput_ratio": round(1 / used, 4)} if used else {})
