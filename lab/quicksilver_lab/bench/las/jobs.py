"""The workload of the Kairos thesis (§4.5.2, Table 4.1), scaled from 120 cores to a few, and the same for every mode.

Tasks: ceil(tasks of the table x cores / 120), at least 1. Time: a job alone on the idle node takes the table's duration
times `LasScale.time`; after `setup_s` its waves of tasks are equally long, and of each `overhead_s` goes to heartbeats
and launches. Jobs: as many of each class as the probabilities say (to the nearest, at least one), in random order.
Arrivals: exponential gaps, stretched so that the load offered to the cores is that of the thesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import Final

THESIS_CORES: Final = 120
THESIS_GAP_S: Final = 60.0
THESIS_QUANTUM_S: Final = 50.0
MAP_PRIORITY: Final = 20
REDUCE_PRIORITY: Final = 10
"""As MapReduce's."""
SHORTEST_TASK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class LasJobClass:
    """A row of Table 4.1. alone_s: makespan on the idle cluster of 120 cores; share: probability."""

    name: str
    maps: int
    reduces: int
    alone_s: float
    share: float

    def waves(self, cores: int) -> int:
        """Return in how many rounds `cores` cores do all tasks, reduces after maps."""
        return ceil(self.maps / cores) + ceil(self.reduces / cores)

    def core_s(self, cores: int) -> float:
        """Return core seconds of one job: its waves are equally long, and a wave may leave cores free."""
        return (self.maps + self.reduces) * self.alone_s / self.waves(cores)

    def held_s(self, cores: int) -> float:
        """Return the seconds for which containers of one job are held without a task at work: master, early reduces."""
        early = self.reduces * (ceil(self.maps / cores) - 1) / self.waves(cores)
        return (1 + early) * self.alone_s


TABLE: Final = (
    LasJobClass("small", 15, 15, 85.0, 0.32),
    LasJobClass("medium small", 15, 15, 201.0, 0.31),
    LasJobClass("medium", 30, 30, 239.0, 0.31),
    LasJobClass("medium long", 112, 60, 308.0, 0.04),
    LasJobClass("long", 224, 60, 1175.0, 0.02),
)


def thesis_load() -> float:
    """Return the container seconds that the thesis' jobs bring per core second: 1.04.

    Tasks 0.95; application masters 0.03, one container for a job's whole life; reduces that wait in their containers
    for a later wave of maps 0.07 (MapReduce starts them after 5 % of the maps). Masters hold no container here, and
    reduces are asked for after all maps: tasks alone bring the load.
    """
    offered_s = sum(row.share * (row.core_s(THESIS_CORES) + row.held_s(THESIS_CORES)) for row in TABLE)
    return offered_s / (THESIS_GAP_S * THESIS_CORES)


LOAD: Final = 1.3
"""What is offered by default. The thesis' 100 jobs arrive within 100 minutes and run for about 2 hours (§4.5.2): work
comes in 1.2 times as fast as it is done. At 1.3 of the table's lengths ours does so here; at 1.04, what the table
itself brings, FIFO had hardly a queue (lab/docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class LasScale:
    """From the thesis' cluster to this node. time: what a second of the table becomes, in seconds."""

    cores: int = 2
    time: float = 0.055
    setup_s: float = 0.5
    """Until a master asks for its first containers."""
    overhead_s: float = 1.6
    """What one wave takes beside its work on idle stock YARN: heartbeats of master and node, launch."""

    def small(self, row: LasJobClass) -> LasJobClass:
        """Return a class as it is here."""
        maps, reduces = (max(1, ceil(n * self.cores / THESIS_CORES)) for n in (row.maps, row.reduces))
        return LasJobClass(row.name, maps, reduces, row.alone_s * self.time, row.share)

    def task_s(self, row: LasJobClass) -> float:
        """Return the CPU seconds of each task. Raises ValueError when the overhead leaves next to nothing."""
        small = self.small(row)
        task_s = (small.alone_s - self.setup_s) / small.waves(self.cores) - self.overhead_s
        if task_s < SHORTEST_TASK_S:
            raise ValueError(f"{row.name}: {task_s:.2f} s for a task are too few; use a larger time scale")
        return task_s


@dataclass(frozen=True, slots=True)
class JobStage:
    """Tasks that are wanted together, each of so many CPU seconds."""

    priority: int
    tasks: int
    task_s: float


@dataclass(frozen=True, slots=True)
class LasJob:
    """One job of the workload; arrives_s: after the begin."""

    number: int
    kind: str
    arrives_s: float
    stages: tuple[JobStage, ...]


def counts(jobs: int) -> list[int]:
    """Return how many jobs of each class there are. Raises ValueError for fewer jobs than classes."""
    if jobs < len(TABLE):
        raise ValueError(f"{jobs} jobs cannot have one of each of the {len(TABLE)} classes")
    exact = [row.share * jobs for row in TABLE]
    result = [max(1, int(x)) for x in exact]
    while (missing := jobs - sum(result)) != 0:
        step = 1 if missing > 0 else -1
        result[max(range(len(TABLE)), key=lambda n: step * (exact[n] - result[n]))] += step
    return result


def job_of(row: LasJobClass, scale: LasScale, number: int = 0, arrives_s: float = 0.0) -> LasJob:
    """Return one job of a class."""
    small, task_s = scale.small(row), scale.task_s(row)
    stages = (JobStage(MAP_PRIORITY, small.maps, task_s), JobStage(REDUCE_PRIORITY, small.reduces, task_s))
    return LasJob(number, row.name, arrives_s, stages)


def gap_s(kinds: Sequence[LasJobClass], scale: LasScale, load: float) -> float:
    """Return the mean time between arrivals at which these jobs offer `load` to the cores."""
    core_s = sum(scale.small(row).core_s(scale.cores) for row in kinds)
    return core_s / (len(kinds) * scale.cores * load)


def draw(jobs: int, scale: LasScale, seed: int, load: float | None = None) -> list[LasJob]:
    """Return the workload; equal arguments give equal jobs. load: default that of the thesis. Raises ValueError."""
    rng = Random(seed)
    kinds = [row for row, count in zip(TABLE, counts(jobs), strict=True) for _ in range(count)]
    rng.shuffle(kinds)
    gaps = [0.0, *(rng.expovariate(1.0) for _ in range(jobs - 1))]
    stretch = gap_s(kinds, scale, load or thesis_load()) * (jobs - 1) / sum(gaps)
    drawn, now_s = [], 0.0
    for number, (row, gap) in enumerate(zip(kinds, gaps, strict=True), start=1):
        now_s += gap * stretch
        drawn.append(job_of(row, scale, number, now_s))
    return drawn
