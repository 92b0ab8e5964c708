"""Jobs as traces tell them: with stages, and with the hosts of their input. `job_of` makes the simulator's jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.model import Job

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
    """Return a job of independent tasks, None when no task counts. What it is told is the mean, if nothing else is."""
    durations_s = tuple(task.runs_s for task in spec.tasks if stages == "all" or task.stage == MAP)
    if not durations_s:
        return None
    estimate_s = sum(durations_s) / len(durations_s) if spec.told_s is None else spec.told_s
    return Job(
        spec.number,
        spec.arrives_s,
        durations_s,
        estimate_s,
        spec.name,
        spec.user,
        spec.queue,
        memory_mb=spec.memory_mb,
    )


def spec_of(job: Job) -> JobSpec:
    """Return a job as one stage of tasks whose input lies anywhere."""
    tasks = tuple(TaskSpec(seconds) for seconds in job.durations_s)
    user = job.user or "bench"
    return JobSpec(job.number, job.arrives_s, "job", tasks, job.queue, user, job.estimate_s, job.memory_mb, job.name)
