"""The figures of one run of a mix, and means of them over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import fmean
from typing import Any, Final

from quicksilver_lab.bench import sizes
from quicksilver_lab.bench.emulator.jobs import WARM
from quicksilver_lab.bench.emulator.model import JobRecord, RunResult
from quicksilver_lab.bench.mercury.figures import MeasuredWindow, tasks_in, used_ratio, waits_s
from quicksilver_lab.bench.mixes.behind_long import LONG, behind_long
from quicksilver_lab.bench.policies.effects import share
from quicksilver_lab.bench.stats import percentile

LATENCIES: Final = ("latency_mean_s", "latency_p50_s", "latency_p95_s")
SHORT: Final = ("short_p50_s", "short_p95_s")
"""Of the half of the jobs with less work."""
WIDE: Final = "wide_mean_s"
"""Mean latency of the tenth of the jobs with the most tasks; among equals with the most work."""
LOWER: Final = (*LATENCIES, *SHORT, WIDE, "makespan_s")
WAITS: Final = ("wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_p99_s")
"""From when a task was wanted to its (last) start."""
METRICS: Final = (*LOWER, "latency_p99_s", *WAITS, "tasks_per_s")
"""`makespan_s` of open mixes alone, `tasks_per_s` of closed ones."""


def counted(run: RunResult, is_open: bool) -> list[JobRecord]:
    """Return the jobs that count: of an open mix all but the first small ones, of a closed one those of the window.

    A job of a closed mix counts if it was submitted in the window, however long it takes: to count those that end in
    it would leave out the long ones.
    """
    if is_open:
        return [job for job in run.jobs if job.klass != WARM]
    window = MeasuredWindow.of(run)
    return [job for job in run.jobs if window.has(job.submitted_s)]


def figures(run: RunResult, is_open: bool) -> dict[str, Any]:
    """Return the METRICS of a run that has them, beside jobs, classes by size, utilisation and what was lost."""
    jobs = counted(run, is_open)
    ended = [job for job in jobs if job.ended_s is not None]
    tasks = [task for job in jobs for task in job.tasks]
    done = [task for task in tasks if task.ended_s is not None]
    result: dict[str, Any] = {
        "jobs": len(ended),
        "tasks": len(done),
        **{name: run.counts.get(name, 0) for name in ("lost", "doubled", "failed_jobs")},
        "opportunistic_ratio": round(share(sum(task.opportunistic for task in done), len(done)), 4),
        "unfinished_jobs": len(jobs) - len(ended),
        "kills": run.kills,
        "work_lost_s": run.work_lost_s,
        "work_lost_ratio": round(share(run.work_lost_s, sum(job.work_s for job in run.jobs)), 5),
    }
    if not is_open:
        window = MeasuredWindow.of(run)
        result["tasks_per_s"] = round(len(tasks_in(run, window)) / window.length_s, 3)
    if waits := waits_s(tasks):
        result["wait_mean_s"] = round(fmean(waits), 3)
        result |= {f"wait_p{q}_s": round(percentile(waits, q), 3) for q in (50, 95, 99)}
    if not ended:
        return result
    by_work = sorted(ended, key=lambda job: (job.work_s, len(job.tasks), job.number))
    by_width = sorted(ended, key=lambda job: (len(job.tasks), job.work_s, job.number))
    short = [sizes.latency_s(job) for job in by_work[: max(1, len(ended) // 2)]]
    wide = [sizes.latency_s(job) for job in by_width[-max(1, len(ended) // 10) :]]
    from_s, to_s = min(job.submitted_s for job in jobs), max(job.ended_s or 0.0 for job in ended)
    result |= sizes.latencies(ended) | sizes.classes(ended)
    kinds = sorted({job.klass for job in ended})
    result["classes"] = {
        kind: {"jobs": len(own)} | sizes.latencies(own)
        for kind in kinds
        if (own := [job for job in ended if job.klass == kind])
    }
    result |= {f"short_p{q}_s": round(percentile(short, q), 3) for q in (50, 95)}
    result[WIDE] = round(fmean(wide), 3)
    if LONG in kinds:
        result["short_behind_long"] = behind_long(run.jobs, run.slots // run.nodes)
    if is_open:
        result["makespan_s"] = round(to_s - from_s, 3)
    used = [sample for sample in run.samples if from_s <= sample.at_s <= to_s]
    return result | ({"utilisation": round(used_ratio(used, run.slots), 4)} if used else {})


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean. Raises ValueError of none, or of one that is not above 0."""
    return exp(fmean(log(value) for value in values))
