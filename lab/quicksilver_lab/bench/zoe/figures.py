"""Figures of one run: turnaround, queuing, slowdown and allocation, as Zoe's evaluation compares them (§4.1, §6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from quicksilver.simulator.model import ApplicationJob, SimResult
from quicksilver_lab.bench.emulator.masters.application import ApplicationSpan, MasterRecord
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.bench.zoe.live import LiveResult
from quicksilver_lab.bench.zoe.workload import SERVERS, SHAPE
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID

CAPACITY_MB: Final = SERVERS * SHAPE.memory_mb
Figures = dict[str, Any]
_CLASSES: Final = {"B-E": BATCH_ELASTIC, "B-R": BATCH_RIGID}
_COMPARED: Final = (
    "turnaround_mean_s",
    "turnaround_p50_s",
    "turnaround_p95_s",
    "turnaround_mean_s_B-E",
    "turnaround_p50_s_B-E",
    "turnaround_mean_s_B-R",
    "turnaround_p50_s_B-R",
    "queuing_mean_s",
    "queuing_p50_s",
    "slowdown_mean",
    "slowdown_p50",
    "allocation",
    "allocation_while_arriving",
    "allocation_p50",
    "makespan_s",
)
_SAMPLE_S: Final = 1.0


def summary(result: LiveResult) -> Figures:
    """Return the figures of a run, times in seconds and allocation as a share of the servers' memory.

    `lost` counts applications that did not end, `doubled` processes that began a second time in one container.
    """
    records = result.records
    ended = [record for record in records if record.ended_s is not None]
    figures: Figures = {
        "applications": len(records),
        "ended": len(ended),
        "lost": len(records) - len(ended),
        "doubled": result.counts.get("doubled", 0),
        "strays": result.counts.get("strays", 0),
        "preempted": sum(record.preempted for record in records),
        "lost_elastic": sum(record.lost_elastic for record in records),
        "lost_core": sum(record.lost_core for record in records),
        "refused": result.counts.get("refused", 0),
        "surplus": result.counts.get("surplus", 0),
        "errors": sum(len(record.errors) for record in records),
        "cpu_s": result.cpu_s,
    }
    if ended:
        figures |= _times(ended)
        figures |= allocation(records)
    return figures


def _times(ended: Sequence[MasterRecord]) -> Figures:
    turnaround_s = [(record.klass, (record.ended_s or 0.0) - record.submitted_s) for record in ended]
    queuing_s = [(record.klass, record.began_s - record.submitted_s) for record in ended if record.began_s is not None]
    slowdown = [(record.klass, ((record.ended_s or 0.0) - record.submitted_s) / record.runtime_s) for record in ended]
    return (
        by_class("turnaround", "_s", turnaround_s)
        | by_class("queuing", "_s", queuing_s)
        | by_class("slowdown", "", slowdown)
    )


def by_class(name: str, unit: str, values: Sequence[tuple[str, float]]) -> Figures:
    """Return mean, median and p95 of (class, value), of all and of each class that is there."""
    result = _spread(name, unit, [value for _, value in values])
    for short, klass in _CLASSES.items():
        of_class = _spread(name, unit, [value for kind, value in values if kind == klass])
        result |= {f"{key}_{short}": value for key, value in of_class.items()}
    return result


def _spread(name: str, unit: str, values: Sequence[float]) -> Figures:
    if not values:
        return {}
    result = {f"{name}_mean{unit}": round(fmean(values), 3)}
    return result | {f"{name}_p{q}{unit}": round(percentile(values, q), 3) for q in (50, 95)}


def allocation(records: Sequence[MasterRecord]) -> Figures:
    """Return the memory of containers that run, by the servers' memory.

    `allocation` is the mean over time from the first submission to the last end, `allocation_while_arriving` to the
    last submission; `allocation_p50` is the median of samples each second while they arrive; `allocation_peak` the
    largest ever; `granted` the mean of the first one with containers counted from their grant on.
    """
    spans = [span for record in records for span in record.spans]
    first_s = min(record.submitted_s for record in records)
    arrived_s = max(record.submitted_s for record in records)
    end_s = max(record.ended_s or record.submitted_s for record in records)
    running, granted = steps(spans, "began_s"), steps(spans, "granted_s")
    result = {
        "makespan_s": round(end_s - first_s, 3),
        "allocation": mean_over(running, first_s, end_s) / CAPACITY_MB,
        "allocation_while_arriving": mean_over(running, first_s, arrived_s) / CAPACITY_MB,
        "allocation_p50": percentile(_samples(running, first_s, arrived_s), 50) / CAPACITY_MB,
        "allocation_peak": max((mb for _, mb in running), default=0) / CAPACITY_MB,
        "granted": mean_over(granted, first_s, end_s) / CAPACITY_MB,
    }
    return {name: round(value, 4) for name, value in result.items()}


Steps = list[tuple[float, int]]
"""(moment, MB from then on), by moment."""


def steps(spans: Iterable[ApplicationSpan], begin: str) -> Steps:
    """Return the memory in use over time. begin: "began_s" or "granted_s", from where on a container counts."""
    changes: list[tuple[float, int]] = []
    for span in spans:
        from_s: float | None = getattr(span, begin)
        if from_s is not None and span.ended_s is not None and span.ended_s > from_s:
            changes += [(from_s, span.memory_mb), (span.ended_s, -span.memory_mb)]
    result: Steps = []
    used_mb = 0
    for at_s, change_mb in sorted(changes):
        used_mb += change_mb
        result.append((at_s, used_mb))
    return result


def mean_over(used: Steps, from_s: float, to_s: float) -> float:
    """Return the mean of a step function, 0 before its first step. 0 for no time."""
    if to_s <= from_s:
        return 0.0
    inside = [(0.0, 0), *used, (to_s, 0)]
    total = 0.0
    for (at_s, mb), (next_s, _) in pairwise(inside):
        total += mb * max(0.0, min(next_s, to_s) - max(at_s, from_s))
    return total / (to_s - from_s)


def _samples(used: Steps, from_s: float, to_s: float) -> list[float]:
    samples, place, mb = [], 0, 0
    for number in range(max(1, int((to_s - from_s) / _SAMPLE_S))):
        at_s = from_s + number * _SAMPLE_S
        while place < len(used) and used[place][0] <= at_s:
            mb = used[place][1]
            place += 1
        samples.append(float(mb))
    return samples


def simulated_summary(result: SimResult, applications: Sequence[ApplicationJob]) -> Figures:
    """Return the same figures of the simulator, as far as it has them: without any delay, servers as one room."""
    runtime_s = {app.number: app.runtime_s for app in applications}
    turnaround_s = [(job.klass, job.completion_s) for job in result.jobs]
    queuing_s = [(job.klass, job.wait_s) for job in result.jobs]
    slowdown = [(job.klass, job.completion_s / runtime_s[job.number]) for job in result.jobs]
    return (
        by_class("turnaround", "_s", turnaround_s)
        | by_class("queuing", "_s", queuing_s)
        | by_class("slowdown", "", slowdown)
        | {
            "makespan_s": round(max(job.ended_s for job in result.jobs), 3),
            "preempted": result.counts["preemptions"],
            "allocation_while_arriving": round(result.extra.get("memory_share", 0.0), 4),
        }
    )


def ratios(of: Figures, to: Figures) -> Figures:
    """Return the figures of one system by those of another, where both have them."""
    return {
        name.replace("_s_", "_").removesuffix("_s"): round(of[name] / to[name], 4)
        for name in _COMPARED
        if to.get(name) and name in of
    }
