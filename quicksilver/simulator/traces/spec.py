"""Jobs as traces tell them: with stages, and with the hosts of their input. `job_of` makes the simulator's jobs."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.traces.lines import Mistakes, TraceError, met

MAP = 0
REDUCE = 1
WINDOW: Final = 1000
"""A job may stand so many places behind the one that is submitted after it."""
UNFINISHED: Final = "tasks without a successful attempt"
NO_TASKS: Final = "jobs without a task that counts"

Stages = Literal["all", "map"]
"""Which tasks count: all, or those of the first stage alone, as in Hawk (§4.1: many jobs have no reducers)."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task: `duration_s` is what it is said to take; a straggler takes `slow_times` as long."""

    duration_s: float
    stage: int = MAP
    hosts: tuple[str, ...] = ()
    """Where its input lies; empty: anywhere."""
    slow_times: float = 1.0

    @property
    def runs_s(self) -> float:
        """How long its process really runs."""
        return self.duration_s * self.slow_times


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job: it arrives `arrives_s` after the run began."""

    number: int
    arrives_s: float
    klass: str
    tasks: tuple[TaskSpec, ...]
    queue: str = "default"
    user: str = "bench"
    told_s: float | None = None
    """The mean task duration that quicksilver is told by a tag, with whatever error; None: nothing is told."""
    memory_mb: int = 1024
    name: str = ""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job as it stands in a trace whose jobs are not quite in order; its number and arrival are not known yet."""

    at_ms: int
    """When it was submitted, on the trace's own clock."""
    place: str
    """Where it stands."""
    job: JobSpec


def in_order(
    submissions: Iterable[Submitted], mistakes: Mistakes | None = None, window: int = WINDOW
) -> Iterator[JobSpec]:
    """Yield jobs by submission, numbered from 1; arrivals count from the earliest submission.

    Raises TraceError for a job that stands more than `window` places late.
    """
    waiting: list[tuple[int, int, Submitted]] = []
    first_ms: int | None = None
    last_ms, number = -1, 0

    def next_job() -> JobSpec:
        nonlocal first_ms, last_ms, number
        last_ms, _, submission = heapq.heappop(waiting)
        first_ms = last_ms if first_ms is None else first_ms
        number += 1
        return replace(submission.job, number=number, arrives_s=(last_ms - first_ms) / 1000)

    for count, submission in enumerate(submissions):
        if submission.at_ms < last_ms:
            problem = f"job {submission.job.name} stands more than {window} jobs behind its submission"
            met(mistakes, TraceError(problem, place=submission.place, remedy="sort the trace by submission"))
            continue
        heapq.heappush(waiting, (submission.at_ms, count, submission))
        if len(waiting) > window:
            yield next_job()
    while waiting:
        yield next_job()


def submitted_ms(value: Any, place: str) -> int:
    """Return when a job was submitted, in ms. Raises TraceError below 0, which is how Hadoop writes "not known"."""
    at_ms = int(value)
    if at_ms < 0:
        problem = f"a job without a time of submission ({at_ms})"
        raise TraceError(problem, place=place, remedy="give it in ms, 0 or more")
    return at_ms


def span_ms(start: Any, end: Any, place: str) -> tuple[int, int]:
    """Return begin and end of a task that was done, in ms. Raises TraceError when it has none, or ends before."""
    start_ms, end_ms = int(start), int(end)
    if not 0 <= start_ms <= end_ms:
        problem = f"a successful task from {start_ms} to {end_ms} ms"
        raise TraceError(problem, place=place, remedy="give its begin, and an end that is not before it")
    return start_ms, end_ms


def after_maps(start: float, end: float, map_ends: Sequence[float]) -> float:
    """Return when a reduce began its own work: when the last map before its end was over, or later.

    map_ends: ascending. A map that was done again behind the reduce's end does not count.
    """
    before = bisect_left(map_ends, end)
    return max(start, map_ends[before - 1]) if before else start


def job_of(spec: JobSpec, stages: Stages = "all") -> SimulatedJob | None:
    """Return a job with its stages in order, None when no task counts. What is told is the mean, if nothing else is."""
    tasks = sorted((task for task in spec.tasks if stages == "all" or task.stage == MAP), key=lambda task: task.stage)
    durations_s = tuple(task.runs_s for task in tasks)
    if not durations_s:
        return None
    estimate_s = sum(durations_s) / len(durations_s) if spec.told_s is None else spec.told_s
    sizes = tuple(Counter(task.stage for task in tasks).values())
    return SimulatedJob(
        spec.number,
        spec.arrives_s,
        durations_s,
        estimate_s,
        spec.name,
        spec.user,
        spec.queue,
        memory_mb=spec.memory_mb,
        stages=sizes if len(sizes) > 1 else (),
    )


def of_stages(jobs: Iterator[SimulatedJob], stages: Stages) -> Iterator[SimulatedJob]:
    """Yield jobs with the stages that count."""
    return jobs if stages == "all" else (job.first_stage() for job in jobs)


def spec_of(job: SimulatedJob) -> JobSpec:
    """Return a job's tasks by stage; their input lies anywhere."""
    stages = enumerate(job.by_stage())
    tasks = tuple(TaskSpec(seconds, stage) for stage, (durations_s, _) in stages for seconds in durations_s)
    user = job.user or "bench"
    return JobSpec(job.number, job.arrives_s, "job", tasks, job.queue, user, job.estimate_s, job.memory_mb, job.name)
