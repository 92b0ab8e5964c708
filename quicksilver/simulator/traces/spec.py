"""Jobs as traces tell them: with stages, and with the hosts of their input. `job_of` makes the simulator's jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from quicksilver.simulator.model import Job

MAP = 0
REDUCE = 1

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


def job_of(spec: JobSpec, stages: Stages = "all") -> Job | None:
    """Return a job with its stages in order, None when no task counts. What is told is the mean, if nothing else is."""
    tasks = sorted((one for one in spec.tasks if stages == "all" or one.stage == MAP), key=lambda one: one.stage)
    durations_s = tuple(task.runs_s for task in tasks)
    if not durations_s:
        return None
    estimate_s = sum(durations_s) / len(durations_s) if spec.told_s is None else spec.told_s
    sizes = tuple(Counter(task.stage for task in tasks).values())
    return Job(
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


def of_stages(jobs: Iterator[Job], stages: Stages) -> Iterator[Job]:
    """Yield jobs with the stages that count."""
    return jobs if stages == "all" else (job.first_stage() for job in jobs)


def spec_of(job: Job) -> JobSpec:
    """Return a job's tasks by stage; their input lies anywhere."""
    stages = enumerate(job.by_stage())
    tasks = tuple(TaskSpec(seconds, stage) for stage, (durations_s, _) in stages for seconds in durations_s)
    user = job.user or "bench"
    return JobSpec(job.number, job.arrives_s, "job", tasks, job.queue, user, job.estimate_s, job.memory_mb, job.name)
