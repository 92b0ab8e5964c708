"""The workload under the virtual clock: many jobs of short tasks, and periods of guaranteed load.

After Mercury's (ATC '15, §7): jobs of many tasks that last from one second to ten, some of them stragglers of which the
estimates know nothing (§7.2.3). What a master tells of its tasks may be off by a share, as in Eagle's experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from random import Random
from typing import Final

from quicksilver.simulator.world.work import Task, WorldJob

BATCH: Final = "root.batch"
PRODUCTION: Final = "root.production"


@dataclass(frozen=True, slots=True)
class JobsKind:
    """A class of batch jobs. share: of the jobs; mean_s: of a task, over all jobs."""

    name: str
    share: float
    mean_s: float
    tasks: tuple[int, int]
    """Fewest and most."""


KINDS: Final = (
    JobsKind("short", 0.6, 1.5, (5, 50)),
    JobsKind("medium", 0.3, 5.0, (5, 40)),
    JobsKind("long", 0.1, 10.0, (20, 60)),
)


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """What is offered to how many nodes. Times in seconds, shares in 0..1."""

    nodes: int = 200
    cores: int = 2
    """Of each node, each with 1 GB; a task takes one of them."""
    arrivals_s: float = 40.0
    """Within this time all jobs arrive."""
    load: float = 0.9
    """Core seconds that are offered per core second of the arrivals, guaranteed ones included."""
    g_period_s: float = 10.0
    g_share: float = 0.2
    """Of the cores, wanted by guaranteed tasks at the begin of each period."""
    g_task_s: float = 4.0
    sigma: float = 0.5
    """Of task durations within a job, lognormal."""
    stragglers: float = 0.03
    straggler_times: float = 4.0
    longest_s: float = 20.0
    """No task takes longer, on a usual node."""
    slow_nodes: float = 0.04
    slow_times: float = 2.0
    """How much longer tasks take on slow nodes."""
    local_jobs: float = 0.5
    """Share of the jobs whose tasks name a host."""
    remote_times: float = 1.1
    """How much longer a task takes that does not run on its host."""
    error: float = 0.3
    """What masters tell of their tasks is off by up to this share."""
    users: int = 4

    @property
    def slots(self) -> int:
        """Cores of all nodes."""
        return self.nodes * self.cores


def draw(plan: JobsPlan, seed: int) -> list[WorldJob]:
    """Return the jobs by arrival; equal arguments give equal jobs."""
    rng = Random(seed)
    batch = _batch(plan, rng)
    jobs = sorted([*batch, *_production(plan)], key=lambda job: job.arrives_s)
    return [
        WorldJob(number, j.kind, j.queue, j.user, j.arrives_s, j.told_s, j.tasks)
        for number, j in enumerate(jobs, start=1)
    ]


def _production(plan: JobsPlan) -> list[WorldJob]:
    """Return a job of guaranteed tasks for each period; their tasks are equal, and so is what is told of them."""
    tasks = (Task(plan.g_task_s),) * round(plan.g_share * plan.slots)
    starts, at_s = [], plan.g_period_s / 2
    while at_s < plan.arrivals_s:
        starts.append(at_s)
        at_s += plan.g_period_s
    return [WorldJob(0, "production", PRODUCTION, "production", at_s, plan.g_task_s, tasks) for at_s in starts]


def _batch(plan: JobsPlan, rng: Random) -> list[WorldJob]:
    """Return batch jobs until what the guaranteed ones leave of the load is reached, spread over the arrivals."""
    g_s = sum(job.work_s for job in _production(plan))
    left_s = plan.load * plan.slots * plan.arrivals_s - g_s
    jobs: list[WorldJob] = []
    while left_s > 0:
        job = _job(plan, rng)
        jobs.append(job)
        left_s -= job.work_s
    return jobs


def _job(plan: JobsPlan, rng: Random) -> WorldJob:
    (kind,) = rng.choices(KINDS, [kind.share for kind in KINDS])
    mean_s = kind.mean_s * rng.lognormvariate(-(0.3**2) / 2, 0.3)
    local = rng.random() < plan.local_jobs
    tasks = []
    for _ in range(rng.randint(*kind.tasks)):
        true_s = mean_s * exp(rng.gauss(-(plan.sigma**2) / 2, plan.sigma))
        if rng.random() < plan.stragglers:
            true_s *= plan.straggler_times
        tasks.append(Task(min(true_s, plan.longest_s), rng.randrange(plan.nodes) if local else None))
    told_s = mean_s * rng.uniform(1 - plan.error, 1 + plan.error)
    user = f"user{rng.randrange(plan.users)}"
    return WorldJob(0, kind.name, BATCH, user, rng.uniform(0, plan.arrivals_s), told_s, tuple(tasks))
