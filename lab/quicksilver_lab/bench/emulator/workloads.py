"""Mercury's workloads (ATC '15, §7), scaled to a cluster's slots; equal seeds give equal jobs.

What they are is said in `quicksilver_lab.papers.workloads.mercury`. The paper's loop is closed: so many jobs are
kept under way (`jobs.shape`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from statistics import fmean
from typing import Final

from quicksilver_lab.bench.emulator.jobs import PAPER_JOBS, replicas, shape
from quicksilver_lab.bench.emulator.model import JobSpec, TaskSpec
from quicksilver_lab.papers.workloads.draws import empirical
from quicksilver_lab.papers.workloads.mercury import JobKind, Workload, kinds

REPLICAS: Final = 3
"""Of the input (§7.1)."""
RAMP_S: Final = 2.0
"""The first jobs arrive within this time, so that their masters' heartbeats do not fall together."""


def listed(name: str, durations_s: Sequence[float]) -> Workload:
    """Return jobs of tasks whose durations are drawn from a list. Raises ValueError of an empty one."""
    empirical(durations_s)
    return Workload(name, (JobKind(name, 1.0, fmean(durations_s), durations_s=tuple(durations_s)),))


def draw(
    workload: Workload,
    slots: int,
    seed: int,
    *,
    paper_jobs: int = PAPER_JOBS,
    hosts: Sequence[str] = (),
    users: int = 1,
    queue: str = "default",
) -> Iterator[JobSpec]:
    """Yield jobs without end, for a closed loop of `jobs.shape(slots, paper_jobs)`; they arrive within RAMP_S.

    hosts: where input may lie; needed when some jobs are local. Raises ValueError without them.
    """
    if workload.local_share and not hosts:
        raise ValueError(f"{workload.name}: local jobs need hosts to lie on")
    concurrent, width = shape(slots, paper_jobs)
    rng = Random(f"{workload.name} {seed}")
    for before, kind in enumerate(kinds(workload, rng)):
        arrives_s = min(RAMP_S, RAMP_S * (before + rng.random()) / concurrent)
        number = before + 1
        tasks = _tasks(workload, kind, width, hosts, rng)
        told_s = kind.mean_s * rng.uniform(1 - workload.error, 1 + workload.error) if workload.hints else None
        user = "bench" if users == 1 else f"bench{number % users}"
        yield JobSpec(number, arrives_s, kind.name, tasks, queue, user, told_s)


def _tasks(workload: Workload, kind: JobKind, width: int, hosts: Sequence[str], rng: Random) -> tuple[TaskSpec, ...]:
    local = rng.random() < workload.local_share
    seconds = kind.draw
    tasks = []
    for _ in range(width):
        slow = rng.random() < workload.straggler_share
        tasks.append(
            TaskSpec(
                duration_s=seconds(rng),
                hosts=replicas(rng, hosts, REPLICAS) if local else (),
                slow_times=workload.straggler_times if slow else 1.0,
            )
        )
    return tuple(tasks)
