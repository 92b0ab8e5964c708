"""Classes of jobs by their size: the number of their tasks, and the slot seconds that these take together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Final

from quicksilver_lab.bench.emulator.model import JobRecord
from quicksilver_lab.bench.stats import percentile

BY_TASKS: Final = ("1", "2-9", "10-99", "100+")
"""Names of the classes by number of tasks."""
BY_WORK: Final = ("under 10 s", "10-99 s", "100-999 s", "1000 s and more")
"""Names of the classes by tasks x duration, in slot seconds."""
_TASKS: Final = (2, 10, 100)
_WORK_S: Final = (10.0, 100.0, 1000.0)


def by_tasks(job: JobRecord) -> str:
    """Return a job's class by its number of tasks."""
    return BY_TASKS[bisect_right(_TASKS, len(job.tasks))]


def by_work(job: JobRecord) -> str:
    """Return a job's class by the slot seconds that were offered with it, which no slow node changes."""
    return BY_WORK[bisect_right(_WORK_S, job.work_s)]


def latency_s(job: JobRecord) -> float:
    """Return a job's seconds from submission to end. Raises ValueError for one that did not end."""
    if job.ended_s is None:
        raise ValueError(f"job {job.number} did not end")
    return job.ended_s - job.submitted_s


def latencies(jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Return mean and percentiles of the latencies of ended jobs, in seconds; nothing of no jobs."""
    if not jobs:
        return {}
    took = [latency_s(job) for job in jobs]
    return {"latency_mean_s": round(fmean(took), 3)} | {
        f"latency_p{q}_s": round(percentile(took, q), 3) for q in (50, 90, 95, 99)
    }


def classes(jobs: Sequence[JobRecord]) -> dict[str, dict[str, Any]]:
    """Return `sizes` and `work`: by class, the number of ended jobs and their latencies; empty classes are left out."""
    return {
        "sizes": _grouped(jobs, BY_TASKS, by_tasks),
        "work": _grouped(jobs, BY_WORK, by_work),
    }


def _grouped(
    jobs: Sequence[JobRecord], names: Sequence[str], class_of: Callable[[JobRecord], str]
) -> dict[str, dict[str, float]]:
    by_class = {name: [job for job in jobs if class_of(job) == name] for name in names}
    return {name: {"jobs": len(own)} | latencies(own) for name, own in by_class.items() if own}
