"""Drawing jobs, and fitting those of a trace to a smaller cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import sqrt
from random import Random
from typing import Final

from quicksilver_lab.bench.emulator.model import JobSpec, TaskSpec

PAPER_SLOTS: Final = 256 * 32
"""Mercury's cluster (ATC '15, §7.1): 256 machines of 32 virtual cores."""
PAPER_TASKS: Final = 200
"""Of each job (§7.2)."""
PAPER_JOBS: Final = 150
"""Under way at once, the best of 100, 150 and 200 (§7.2.1)."""
WARM: Final = "warm-up"
"""The class of small jobs that no figure counts."""
WARM_S: Final = 10.0
_WARM_EVERY_S: Final = 0.5


def shape(slots: int, paper_jobs: int = PAPER_JOBS) -> tuple[int, int]:
    """Return how many jobs to run at once, and the tasks of each, on a cluster of so many slots.

    The paper's tasks per slot are kept (3.7 with 150 jobs), and so are its jobs for each task of a job: both the number
    of jobs and their width shrink by the root of the ratio of slots. 256 slots: 27 jobs of 35 tasks.
    """
    if slots < 1 or paper_jobs < 1:
        raise ValueError(f"slots={slots}, paper_jobs={paper_jobs}: give at least 1")
    factor = sqrt(slots / PAPER_SLOTS)
    return max(1, round(paper_jobs * factor)), max(1, round(PAPER_TASKS * factor))


def replicas(rng: Random, hosts: Sequence[str], count: int) -> tuple[str, ...]:
    """Return where a block of a file lies: `count` different hosts, or all of fewer."""
    return tuple(rng.sample(hosts, min(count, len(hosts))))


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the jobs of a trace are fitted: first the selection, then the changes of each."""

    first: int | None = None
    """So many jobs, None for all."""
    speed: float = 1.0
    """Arrivals come so many times as fast."""
    times: float = 1.0
    """Tasks take so many times as long."""
    most_tasks: int | None = None
    """A job with more tasks keeps so many, of each stage in proportion and evenly over it; at least one of each."""
    most_s: float | None = None
    """Limit of a task's duration, seconds."""
    memory_mb: int | None = None
    """Of every container; None: as traced."""
    queue: str | None = None
    """Of every job; None: as traced."""
    hosts: tuple[str, ...] = ()
    """The cluster's; input lies on these, one for each host of the trace and in turns. Empty: it lies anywhere."""

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not (self.speed > 0 and self.times > 0):
            raise ValueError(f"speed={self.speed}, times={self.times}: give more than 0")
        for name in ("first", "most_tasks", "most_s", "memory_mb"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value}: give more than 0, or leave it out")


def scaled(jobs: Iterable[JobSpec], scaling: Scaling) -> Iterator[JobSpec]:
    """Yield jobs as fitted; what was told of their durations is scaled along."""
    places: dict[str, str] = {}
    for job in islice(jobs, scaling.first):
        tasks = job.tasks if scaling.most_tasks is None else _thinned(job.tasks, scaling.most_tasks)
        yield replace(
            job,
            arrives_s=job.arrives_s / scaling.speed,
            tasks=tuple(_fitted(task, scaling, places) for task in tasks),
            told_s=None if job.told_s is None else job.told_s * scaling.times,
            memory_mb=scaling.memory_mb or job.memory_mb,
            queue=scaling.queue or job.queue,
        )


def _fitted(task: TaskSpec, scaling: Scaling, places: dict[str, str]) -> TaskSpec:
    """Return a task as fitted. places: hosts of the trace to hosts of the cluster; new ones are added."""
    seconds = task.duration_s * scaling.times
    if scaling.most_s is not None:
        seconds = min(seconds, scaling.most_s / task.slow_times)
    hosts: tuple[str, ...] = ()
    if scaling.hosts:
        for host in task.hosts:
            places.setdefault(host, scaling.hosts[len(places) % len(scaling.hosts)])
        hosts = tuple(dict.fromkeys(places[host] for host in task.hosts))
    if seconds == task.duration_s and hosts == task.hosts:
        return task
    return replace(task, duration_s=seconds, hosts=hosts)


def _thinned(tasks: Sequence[TaskSpec], most: int) -> tuple[TaskSpec, ...]:
    if len(tasks) <= most:
        return tuple(tasks)
    sample: list[TaskSpec] = []
    for stage in sorted({task.stage for task in tasks}):
        own = [task for task in tasks if task.stage == stage]
        count = max(1, len(own) * most // len(tasks))
        sample += [own[n * len(own) // count] for n in range(count)]
    return tuple(sample)


def warmed(jobs: Sequence[JobSpec]) -> list[JobSpec]:
    """Return jobs WARM_S later, behind some small ones of class WARM: a ResourceManager's first jobs take seconds."""
    tasks = (TaskSpec(0.5),) * 2
    first = [JobSpec(-number, number * _WARM_EVERY_S, WARM, tasks) for number in range(int(WARM_S / 2 / _WARM_EVERY_S))]
    return [*first, *(replace(job, arrives_s=job.arrives_s + WARM_S) for job in jobs)]
