"""Where the time goes between two tasks in a slot: what holds a competitor back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.mercury.figures import MeasuredWindow, jobs_in, tasks_in
from quicksilver_lab.bench.policies.effects import share


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return round(fmean(numbers), 4) if numbers else 0.0


def task_phases(run: RunResult) -> dict[str, float]:
    """Return the mean seconds of the tasks that ended in the window: wanted to granted, to begun, to ended."""
    tasks = tasks_in(run, MeasuredWindow.of(run))
    return {
        "wanted_to_granted_s": _mean(t.granted_s - t.wanted_s for t in tasks if t.granted_s is not None),
        "granted_to_started_s": _mean(
            t.started_s - t.granted_s for t in tasks if t.started_s is not None and t.granted_s is not None
        ),
        "started_to_ended_s": _mean(
            t.ended_s - t.started_s for t in tasks if t.ended_s is not None and t.started_s is not None
        ),
    }


def job_phases(run: RunResult) -> dict[str, float]:
    """Return the mean seconds of the jobs that ended in the window: submission, first and last start, last end, end."""
    jobs = [job for job in jobs_in(run, MeasuredWindow.of(run)) if job.tasks]
    starts = [[t.started_s for t in job.tasks if t.started_s is not None] for job in jobs]
    ends = [[t.ended_s for t in job.tasks if t.ended_s is not None] for job in jobs]
    whole = [(job, min(s), max(s), max(e)) for job, s, e in zip(jobs, starts, ends, strict=True) if s and e]
    return {
        "submitted_to_registered_s": _mean(j.registered_s - j.submitted_s for j in jobs if j.registered_s is not None),
        "submitted_to_first_start_s": _mean(first - job.submitted_s for job, first, _, _ in whole),
        "first_to_last_start_s": _mean(last - first for _, first, last, _ in whole),
        "last_start_to_last_end_s": _mean(end - last for _, _, last, end in whole),
        "last_end_to_over_s": _mean(j.ended_s - end for j, _, _, end in whole if j.ended_s is not None),
    }


def idle_ratios(run: RunResult) -> dict[str, float]:
    """Return which shares of the window's slots were idle: in all, and while at least so many waited at nodes.

    Of the latter a perfect placement would have none: the least of idle slots and waiting containers at each second.
    """
    window = MeasuredWindow.of(run)
    samples = [sample for sample in run.samples if window.has(sample.at_s)]
    slots = run.slots * len(samples)
    idle = sum(run.slots - sample.used_slots for sample in samples)
    misplaced = sum(min(run.slots - sample.used_slots, sample.queued) for sample in samples)
    return {"idle_ratio": round(share(idle, slots), 4), "idle_while_queued_ratio": round(share(misplaced, slots), 4)}


def phases(runs: Sequence[RunResult]) -> dict[str, float]:
    """Return all of it, as means over the runs."""
    rows = [task_phases(run) | job_phases(run) | idle_ratios(run) for run in runs]
    return {name: _mean(row[name] for row in rows) for name in rows[0]}
