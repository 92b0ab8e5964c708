"""What runs of the two places come to, and how far they lie apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from quicksilver_lab.bench.emulator.model import JobRecord

WITHIN: Final = 0.1
"""The goal: emulated and real figures differ by no more than this, as a share of the real one."""
GOALS: Final = ("makespan_s", "queueing_mean_s")
_BEFORE: Final = 1e-9


def figures(jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Return the figures of a run, in seconds. Raises ValueError for a task that did not start or end.

    queueing: from when a master wants a task run to its process; makespan: from the first submission to the last end.
    """
    waits, ends = [], []
    for job in jobs:
        for task in job.tasks:
            if task.started_s is None or task.ended_s is None:
                raise ValueError(f"task {task.index} of job {job.number} has no end: {job.errors[:1]}")
            waits.append(task.started_s - task.wanted_s)
            ends.append(task.ended_s)
    if not waits:
        raise ValueError(f"no job had a task: {[job.errors[:1] for job in jobs]}")
    latencies = [job.ended_s - job.submitted_s for job in jobs if job.ended_s is not None]
    return {
        "makespan_s": max(ends) - min(job.submitted_s for job in jobs),
        "queueing_mean_s": fmean(waits),
        "job_latency_mean_s": fmean(latencies),
    }


def compared(real: Sequence[Mapping[str, float]], emulated: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return means, ratios emulated / real by figure, and whether the goals are met. Runs of a seed stand together.

    Raises ValueError when there are none, or some have no partner.
    """
    if not real or len(real) != len(emulated):
        raise ValueError(f"{len(real)} real and {len(emulated)} emulated runs cannot be compared; run as many of each")
    result: dict[str, Any] = {"runs": len(real)}
    for name in real[0]:
        there, here = fmean(run[name] for run in real), fmean(run[name] for run in emulated)
        result[name] = {"real": round(there, 3), "emulated": round(here, 3), "ratio": round(here / there, 4)}
    result["goal_met"] = all(abs(result[name]["ratio"] - 1) <= WITHIN + _BEFORE for name in GOALS)
    return result
