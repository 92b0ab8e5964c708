"""What a run showed, small enough to be kept for each of thousands of runs. All times in seconds.

Figures are named KIND_CLASS: `mean`, `p50`, `p90`, `p95`, `p99` of job completion (arrival to the end of the last
task), `wait` (mean over tasks, arrival to begin) and `jobs`, of `all` jobs and of each class. `throughput` is tasks per
second from the first arrival to the last end (`makespan`), `utilisation` the tasks' work by what all slots could do in
that time (what kills lost is no work), `utilisation_p50` and `utilisation_max` the median and the highest of the
samples of busy slots, each weighted by how long it holds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Final

from quicksilver.report.stats import percentile
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult

ALL: Final = "all"
SHORT: Final = "short"
LONG: Final = "long"
PERCENTILES: Final = (50, 90, 95, 99)
GRID: Final = (*(float(q) for q in range(100)), 99.5, 99.9, 100.0)
"""Percents at which completions are kept, for plots."""
HIGHER_IS_BETTER: Final = frozenset(("throughput", "utilisation", "utilisation_p50", "utilisation_max"))
_STEPS: Final = 200
MOST_QUEUES: Final = 20
"""YARN queues with figures of their own: those with the most jobs."""
_BEHIND: Final = re.compile(r"(?:(?P<who>\w+?)_)??(?P<how>behind|tasks_after)_(?P<whom>\w+)")


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers."""

    metrics: Mapping[str, float]
    """By name, as the module says."""
    completion_s: Mapping[str, Sequence[float]]
    """By class: job completion at each percent of GRID."""
    busy: Sequence[tuple[float, float]]
    """(at_s, share of the slots that is busy): no more than 200 steps, each with its mean."""
    behind: Mapping[str, int]
    """Tasks of one class that waited behind one of another, "short queued behind long"; only what the system counts."""
    counts: Mapping[str, int]
    """The system's, as it told them."""
    extra: Mapping[str, float]
    queues: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By YARN queue, where there are several: jobs, mean, p50, p95 of job completion, wait."""


def class_of(job: JobOutcome, long_jobs: Container[int]) -> str:
    """Return a job's class: short or long by its number; a kind of the system's own stays."""
    if job.klass not in ("", SHORT, LONG):
        return job.klass
    return LONG if job.number in long_jobs else SHORT


def figures(
    result: SimResult, cluster: ClusterModel, long_jobs: Container[int], queues: Mapping[int, str] | None = None
) -> Figures:
    """Return the figures of a run.

    long_jobs: the numbers of those that count as long, whatever the system thinks; queues: the YARN queue of each job
    by its number.
    """
    classes: dict[str, list[JobOutcome]] = {ALL: result.jobs}
    for job in result.jobs:
        classes.setdefault(class_of(job, long_jobs), []).append(job)
    ordered = {name: sorted(job.completion_s for job in jobs) for name, jobs in sorted(classes.items()) if jobs}
    metrics = _whole(result, cluster)
    for name, took_s in ordered.items():
        metrics |= _of_class(name, took_s, classes[name])
    return Figures(
        metrics,
        {name: [percentile(took_s, q) for q in GRID] for name, took_s in ordered.items()},
        thinned(result.busy),
        behind(result.counts),
        dict(sorted(result.counts.items())),
        {name: value for name, value in sorted(result.extra.items()) if isfinite(value)},
        by_queue(result.jobs, queues or {}),
    )


def by_queue(jobs: Sequence[JobOutcome], queues: Mapping[int, str]) -> dict[str, dict[str, float]]:
    """Return the figures of each YARN queue, those with the most jobs first; none where there is one queue."""
    groups: dict[str, list[JobOutcome]] = {}
    for job in jobs:
        if job.number in queues:
            groups.setdefault(queues[job.number], []).append(job)
    if len(groups) < 2:
        return {}
    most = sorted(groups, key=lambda name: (-len(groups[name]), name))[:MOST_QUEUES]
    return {name: _of_queue(groups[name]) for name in most}


def _of_queue(jobs: Sequence[JobOutcome]) -> dict[str, float]:
    named = _of_class("", sorted(job.completion_s for job in jobs), jobs)
    return {name.rstrip("_"): value for name, value in named.items()}


def _of_class(name: str, took_s: Sequence[float], jobs: Sequence[JobOutcome]) -> dict[str, float]:
    tasks = sum(job.tasks for job in jobs)
    return {
        f"jobs_{name}": len(jobs),
        f"mean_{name}": sum(took_s) / len(took_s),
        **{f"p{q}_{name}": percentile(took_s, q) for q in PERCENTILES},
        f"wait_{name}": sum(job.wait_s * job.tasks for job in jobs) / max(1, tasks),
    }


def _whole(result: SimResult, cluster: ClusterModel) -> dict[str, float]:
    if not result.jobs:
        return {}
    first_s = min(job.arrives_s for job in result.jobs)
    spent_s = max(job.ended_s for job in result.jobs) - first_s
    figures = {"makespan": spent_s}
    if spent_s > 0:
        figures["throughput"] = sum(job.tasks for job in result.jobs) / spent_s
        figures["utilisation"] = sum(job.work_s for job in result.jobs) / (spent_s * cluster.total_slots)
    weights = _weights(result.busy)
    if weights:
        whole_s = sum(seconds for _, seconds in weights)
        figures["utilisation_p50"] = _weighted_median(weights, whole_s)
        figures["utilisation_max"] = max(share for share, _ in weights)
    return figures


def _weights(busy: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return shares with the seconds for which they held; the last one holds for none."""
    return [(share, then_s - at_s) for (at_s, share), (then_s, _) in pairwise(busy) if then_s > at_s]


def _weighted_median(weights: Sequence[tuple[float, float]], whole_s: float) -> float:
    passed_s = 0.0
    for share, seconds in sorted(weights):
        passed_s += seconds
        if passed_s >= whole_s / 2:
            return share
    return weights[-1][0]  # rounding only


def thinned(busy: Sequence[tuple[float, float]], steps: int = _STEPS) -> list[tuple[float, float]]:
    """Return no more than `steps` steps of equal length, each with its mean share, and where the last one ends."""
    if len(busy) <= steps + 1 or busy[-1][0] <= busy[0][0]:
        return [tuple(sample) for sample in busy[: steps + 1]]  # type: ignore[misc]  # JSON has lists
    begins_s, width_s = busy[0][0], (busy[-1][0] - busy[0][0]) / steps
    sums = [0.0] * steps
    for (at_s, share), (until_s, _) in pairwise(busy):
        step = min(steps - 1, int((at_s - begins_s) / width_s))
        while at_s < until_s:
            end_s = until_s if step == steps - 1 else min(until_s, begins_s + (step + 1) * width_s)
            sums[step] += share * max(0.0, end_s - at_s)
            at_s, step = max(at_s, end_s), min(steps - 1, step + 1)
    return [(begins_s + step * width_s, total / width_s) for step, total in enumerate(sums)] + [busy[-1]]


def sampled(busy: Sequence[tuple[float, float]], times_s: Sequence[float]) -> list[float]:
    """Return the share at each time: that of the last sample before it, 0 before the first and from the last one on."""
    starts = [at_s for at_s, _ in busy]
    figures = []
    for time_s in times_s:
        at = bisect_right(starts, time_s) - 1
        figures.append(busy[at][1] if 0 <= at < len(busy) - 1 else 0.0)
    return figures


def behind(counts: Mapping[str, int]) -> dict[str, int]:
    """Return who waited behind whom, out of counts named `behind_long` and `tasks_after_long`.

    The first are queued (tasks or probes) behind, the second were held up and started after; of short jobs, unless
    the name begins with another class: `long_behind_long`.
    """
    figures = {}
    for name, count in sorted(counts.items()):
        match = _BEHIND.fullmatch(name)
        if match:
            how = "queued behind" if match["how"] == "behind" else "started after"
            figures[f"{match['who'] or SHORT} {how} {match['whom']}"] = count
    return figures
