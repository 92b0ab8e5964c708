"""Runs of one competitor on one workload as lines: over time, and cumulative."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Final

from quicksilver.report.model import Series
from quicksilver_lab.bench.emulator.model import JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.page.shapes import cdf, per_second, smoothed

_SMOOTH_S: Final = 5


def _counts(run: RunResult, at_s: float | None, windowed: bool) -> bool:
    """Return whether what ended then counts: what ended at all, or only within the run's window."""
    return at_s is not None and (not windowed or run.began_s <= at_s < run.began_s + run.window_s)


def _tasks(run: RunResult) -> list[TaskRecord]:
    return [task for job in run.jobs for task in job.tasks]


def _jobs(runs: Sequence[RunResult], windowed: bool) -> list[JobRecord]:
    return [job for run in runs for job in run.jobs if _counts(run, job.ended_s, windowed)]


def classes(runs: Sequence[RunResult]) -> list[str]:
    """Return the classes of the jobs that ended."""
    return sorted({job.klass for job in _jobs(runs, False)})


def throughput(name: str, runs: Sequence[RunResult]) -> Series:
    """Return tasks per second over time, from the run's begin on: the mean of the runs, smoothed over 5 s.

    The second in which a run's last task ends is the last of its own; of the longest run all are shown.
    """
    rates = []
    for run in runs:
        ends = [task.ended_s for task in _tasks(run) if task.ended_s is not None]
        rates.append(per_second(ends, max(ends, default=0.0) + 1))
    values = smoothed([fmean(column) for column in zip_longest(*rates, fillvalue=0.0)], _SMOOTH_S)
    return Series(name, [at + 0.5 for at in range(len(values))], values)


def utilisation(name: str, runs: Sequence[RunResult]) -> Series:
    """Return the share (0..1) of the slots that are held over time: the mean of the runs, smoothed over 5 samples."""
    return _sampled(
        name, [([s.at_s for s in run.samples], [s.used_slots / run.slots for s in run.samples]) for run in runs]
    )


def queue_length(name: str, runs: Sequence[RunResult]) -> Series:
    """Return the containers that wait at nodes over time: the mean, smoothed over 5 samples."""
    return _sampled(name, [([s.at_s for s in run.samples], [float(s.queued) for s in run.samples]) for run in runs])


def _sampled(name: str, samples: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Series:
    """Return the mean of samples that stand at the same place, as far as all runs have them."""
    times = min((times for times, _ in samples), key=len, default=())
    values = [fmean(column) for column in zip(*(values for _, values in samples), strict=False)]
    return Series(name, times, smoothed(values, _SMOOTH_S))


def latency(name: str, runs: Sequence[RunResult], klass: str, windowed: bool = True) -> Series | None:
    """Return shares of the jobs of a class by their latency in seconds, submission to end; None when none ended.

    windowed: only those count that ended within their run's window.
    """
    jobs = _jobs(runs, windowed)
    took = [job.ended_s - job.submitted_s for job in jobs if job.klass == klass and job.ended_s is not None]
    return cdf(name, took) if took else None


def wait(name: str, runs: Sequence[RunResult], windowed: bool = True) -> Series | None:
    """Return shares of the tasks by seconds from when they were wanted to their last start; None when none ended.

    windowed: only those count that ended within their run's window.
    """
    waits = [
        task.started_s - task.wanted_s
        for run in runs
        for task in _tasks(run)
        if _counts(run, task.ended_s, windowed) and task.started_s is not None
    ]
    return cdf(name, waits) if waits else None
