"""What must hold after every run, whatever the system."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isclose

from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult, SimulatedJob

_ROUNDING_S = 1e-6


def wrong(result: SimResult, jobs: Sequence[SimulatedJob], cluster: ClusterModel) -> list[str]:
    """Return what must not be, in words: tasks lost or done twice, work not conserved, time running backwards.

    jobs: those that the run was given. Nothing wrong is an empty list.
    """
    faults = _numbers(result, jobs)
    by_number = {job.number: job for job in jobs}
    for outcome in result.jobs:
        if outcome.number in by_number:
            faults += _job(outcome, by_number[outcome.number])
    if any(later[0] < earlier[0] for earlier, later in pairwise(result.busy)):
        faults.append("busy: samples are not by time")
    if any(not -_ROUNDING_S <= share <= 1 + _ROUNDING_S for _, share in result.busy):
        faults.append("busy: more slots than there are, or fewer than none")
    return faults + _counts(result, jobs) + _capacity(result, cluster)


def _numbers(result: SimResult, jobs: Sequence[SimulatedJob]) -> list[str]:
    got, expected = sorted(job.number for job in result.jobs), sorted(job.number for job in jobs)
    return [] if got == expected else [f"{len(expected)} jobs were given, {len(got)} came back, or others than those"]


def _job(outcome: JobOutcome, job: SimulatedJob) -> list[str]:
    faults = []
    if outcome.arrives_s != job.arrives_s or outcome.tasks != len(job.durations_s):
        faults.append(f"job {job.number}: arrival or tasks are not its own")
    if not isclose(outcome.work_s, job.work_s, rel_tol=1e-9, abs_tol=_ROUNDING_S):
        faults.append(f"job {job.number}: {outcome.work_s} s of work were done, {job.work_s} s were asked for")
    if outcome.ended_s < job.arrives_s + max(job.durations_s, default=0.0) - _ROUNDING_S:
        faults.append(f"job {job.number}: ended at {outcome.ended_s} s, before its longest task can have")
    if not -_ROUNDING_S <= outcome.wait_s <= outcome.completion_s + _ROUNDING_S:
        faults.append(f"job {job.number}: tasks waited {outcome.wait_s} s of {outcome.completion_s} s")
    return faults + (_stages(outcome, job) if outcome.stages else [])


def _stages(outcome: JobOutcome, job: SimulatedJob) -> list[str]:
    """No task of a stage begins before the one before has ended, and none is shorter than its longest task."""
    if len(outcome.stages) != len(job.stages):
        return [f"job {job.number}: {len(outcome.stages)} stages came back of {len(job.stages)}"]
    faults, before_s = [], job.arrives_s
    for number, ((began_s, ended_s), (durations_s, _)) in enumerate(zip(outcome.stages, job.by_stage(), strict=True)):
        if began_s < before_s - _ROUNDING_S:
            faults.append(
                f"job {job.number}: stage {number} began at {began_s} s, the one before ended at {before_s} s"
            )
        if ended_s < before_s + max(durations_s) - _ROUNDING_S:
            faults.append(f"job {job.number}: stage {number} ended at {ended_s} s, before its longest task can have")
        before_s = ended_s
    if abs(before_s - outcome.ended_s) > _ROUNDING_S:
        faults.append(f"job {job.number}: ended at {outcome.ended_s} s, its last stage at {before_s} s")
    return faults


def _counts(result: SimResult, jobs: Sequence[SimulatedJob]) -> list[str]:
    counts, tasks = result.counts, sum(len(job.durations_s) for job in jobs)
    faults = [
        f"counts: {name}={counts.get(name, 0)}, not {expected}"
        for name, expected in (("tasks", tasks), ("ended", tasks), ("lost", 0), ("doubled", 0))
        if counts.get(name, 0) != expected
    ]
    if counts.get("started", 0) < tasks:
        faults.append(f"counts: started={counts.get('started', 0)}, below {tasks} tasks")
    return faults


def _capacity(result: SimResult, cluster: ClusterModel) -> list[str]:
    if not result.jobs:
        return []
    spent_s = max(job.ended_s for job in result.jobs) - min(job.arrives_s for job in result.jobs)
    work_s = sum(job.work_s for job in result.jobs)
    if work_s > spent_s * cluster.total_slots * (1 + 1e-9) + _ROUNDING_S:
        return [f"{work_s} s of work in {spent_s} s on {cluster.total_slots} slots"]
    return []
