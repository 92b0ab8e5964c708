"""The trace of a study: which jobs of it, how fast they arrive, and what there is to know of it before a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random
from typing import Final

from report.stats import percentile
from shell.errors import QuicksilverError
from simulator.model import Job
from simulator.traces.formats import read
from simulator.traces.lines import Mistakes

LONG_PERCENTILE: Final = 90.0
"""Where nobody says what a long job is: one job in ten, as in most of Hawk's traces (thesis, Table 2.1)."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs of a file."""

    path: Path
    format: str = ""
    """"" for what its content shows."""
    first: int | None = None
    """Only so many jobs of it."""
    faster_ratio: float = 1.0
    """Jobs arrive this many times as fast."""
    sample_ratio: float = 1.0
    """Each seed has another random share of the jobs, which arrive so much faster that the load stays."""
    skip: bool = False
    """Leave out broken jobs; else the first one is an error."""

    def jobs_of(self, seed: int) -> Iterator[Job]:
        """Yield the jobs of a run by arrival: all, or the share of its seed. Raises TraceError."""
        if self.sample_ratio == 1.0:
            return self.jobs()
        rng, ratio = Random(seed), self.sample_ratio
        return (replace(job, arrives_s=job.arrives_s * ratio) for job in self.jobs() if rng.random() < ratio)

    def jobs(self, mistakes: Mistakes | None = None) -> Iterator[Job]:
        """Yield the jobs by arrival; what is broken is told to `mistakes`. Raises TraceError."""
        mistakes = mistakes or Mistakes(skip=self.skip)
        found = islice(read(self.path, self.format or None, mistakes=mistakes), self.first)
        if self.faster_ratio == 1.0:
            return found
        return (replace(job, arrives_s=job.arrives_s / self.faster_ratio) for job in found)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a trace is like."""

    jobs: int
    tasks: int
    work_s: float
    arrives_s: tuple[float, float]
    """When the first and the last job arrive."""
    long_s: float
    """The estimate that one job in ten is above."""
    digest: str
    """Changes with any job."""
    skipped: int = 0
    """Broken jobs, which are left out."""
    mistakes: tuple[str, ...] = ()
    """What is wrong with the first of them."""

    @property
    def span_s(self) -> float:
        """How long jobs arrive."""
        return self.arrives_s[1] - self.arrives_s[0]

    def slots_for(self, load: float) -> int:
        """Return how many slots the work fills to a share of `load` (above 0) while jobs arrive."""
        return max(1, ceil(self.work_s / (self.span_s * load))) if self.span_s > 0 else 1


def survey(trace: Trace) -> Survey:
    """Read a whole trace once. Raises TraceError, QuicksilverError when there is no job in it."""
    jobs = tasks = 0
    work_s, first_s, last_s = 0.0, 0.0, 0.0
    estimates_s: list[float] = []
    digest, mistakes = sha256(), Mistakes(skip=trace.skip)
    for job in trace.jobs(mistakes):
        first_s = job.arrives_s if not jobs else first_s
        last_s = job.arrives_s
        jobs += 1
        tasks += len(job.durations_s)
        work_s += job.work_s
        estimates_s.append(job.estimate_s)
        digest.update(repr(job).encode())
    if not jobs:
        raise QuicksilverError("there is no job in it", place=str(trace.path), remedy="give a trace with jobs")
    long_s, known = percentile(estimates_s, LONG_PERCENTILE), digest.hexdigest()[:16]
    return Survey(jobs, tasks, work_s, (first_s, last_s), long_s, known, mistakes.count, tuple(mistakes.first))
