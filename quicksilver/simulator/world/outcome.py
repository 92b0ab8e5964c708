"""What a run of the production machines comes to, in the words of all systems."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from statistics import fmean

from quicksilver.simulator.model import JobOutcome, SimResult
from quicksilver.simulator.world.master import Master
from quicksilver.simulator.world.production import World


def outcome(world: World, system: str, seed: int, busy: list[tuple[float, float]]) -> SimResult:
    """Return the books of a run that is over. busy: its samples."""
    run = world.run
    jobs = [_job(master) for master in run.masters if master.done]
    counts = Counter(run.counts)
    tasks = sum(len(master.tasks) for master in run.masters)
    ended = sum(task.ended_s is not None for master in run.masters for task in master.tasks)
    counts.update(
        tasks=tasks,
        started=counts.pop("began", 0),
        ended=ended,
        lost=tasks - ended,
        doubled=0,  # a task that is begun or done twice ends a run with an AssertionError
        events=counts.pop("steps", 0),
        kills=len(run.lost_s),
        sheds=sum(run.sheds.values()),
        faults=len(run.faults),
    )
    if len(jobs) < len(run.masters):
        counts["unfinished"] = len(run.masters) - len(jobs)
    extra = {"lost_s": sum(run.lost_s), "over_capacity": float(run.over_capacity)}
    return SimResult(system, seed, jobs, busy, dict(sorted(counts.items())), extra)


def _job(master: Master) -> JobOutcome:
    job = master.job
    ended_s = [task.ended_s for task in master.tasks if task.ended_s is not None]
    waits_s = [task.began_s - job.arrives_s for task in master.tasks if task.began_s is not None]
    return JobOutcome(
        number=job.number,
        arrives_s=job.arrives_s,
        ended_s=max(ended_s, default=job.arrives_s),
        tasks=len(job.tasks),
        work_s=job.work_s,
        wait_s=fmean(waits_s) if waits_s else 0.0,
        stages=_spans_s(master) if len(job.stages) > 1 else (),
    )


def _spans_s(master: Master) -> tuple[tuple[float, float], ...]:
    """Return of each stage of a job that is done when its tasks began and ended."""
    tasks = iter(master.tasks)
    spans_s = []
    for many, _ in master.job.stages:
        times_s = [(task.began_s or 0.0, task.ended_s or 0.0) for task in islice(tasks, many)]
        spans_s.append((min(times_s)[0], max(ended_s for _, ended_s in times_s)))
    return tuple(spans_s)
