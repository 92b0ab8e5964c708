"""The trace of a study: which jobs of it, how fast they arrive, and what there is to know of it before a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil
from pathlib import Path
from random import Random
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.report.stats import percentile
from quicksilver.simulator.model import ClusterModel, SimulatedJob
from quicksilver.simulator.traces.lines import Mistakes
from quicksilver.simulator.traces.shaping import Errors, misestimated
from quicksilver.simulator.traces.source import Source

LONG_PERCENTILE: Final = 90.0
"""Where nobody says what a long job is: one job in ten, as in most of Hawk's traces (thesis, Table 2.1)."""
LONGEST_S: Final = 1e8
"""Three years: what takes longer, a task or all arrivals, is no second of a cluster."""
_DAY_S: Final = 86400.0
_QUEUES: Final = 10


@dataclass(frozen=True, slots=True)
class Trace:
    """Which jobs, and what a seed changes of them: generated ones, a sample, and what is wrong with estimates."""

    source: Source
    """Its own seed holds for what is known before a run, its estimates are right."""
    sample_ratio: float = 1.0
    """Each seed has another random share of the jobs, which arrive so much faster that the load stays."""
    error: float = 0.0
    """Estimates that systems are told are wrong by up to this share."""
    errors: Errors = "both"

    @property
    def name(self) -> str:
        """For people: the file's name without its folder."""
        return self.source.name if self.source.is_generated else Path(self.source.name).name

    def jobs_of(self, seed: int) -> Iterator[SimulatedJob]:
        """Yield the jobs of a run by arrival, which is no date, with right estimates. Raises TraceError."""
        jobs = _undated(replace(self.source, seed=seed).stream())
        if self.sample_ratio == 1.0:
            return jobs
        rng, ratio = Random(f"sample {seed}"), self.sample_ratio
        return (replace(job, arrives_s=job.arrives_s * ratio) for job in jobs if rng.random() < ratio)

    def with_estimates(self, jobs: Iterable[SimulatedJob], seed: int) -> Iterable[SimulatedJob]:
        """Return jobs with the estimates that a system is told."""
        return misestimated(jobs, self.error, seed, self.errors) if self.error else jobs


def _undated(jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
    """Yield the jobs, with arrivals from the first one on where that comes after a day: dates. Systems begin at 0."""
    begins_s: float | None = None
    for job in jobs:
        if begins_s is None:
            begins_s = job.arrives_s if job.arrives_s > _DAY_S else 0.0
        yield replace(job, arrives_s=job.arrives_s - begins_s) if begins_s else job


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
    longest_s: float
    """Duration of the longest task."""
    digest: str
    """Changes with any job."""
    left_out: tuple[str, ...] = ()
    """What was left out and how often, in words: broken jobs, unfinished tasks."""
    mistakes: tuple[str, ...] = ()
    """What is wrong with the first broken jobs."""
    queues: tuple[str, ...] = ()
    """Of the jobs, the first ten."""

    @property
    def span_s(self) -> float:
        """How long jobs arrive."""
        return self.arrives_s[1] - self.arrives_s[0]

    def load(self, cluster: ClusterModel) -> float:
        """Return the share of a cluster's slots that the work fills while jobs arrive; 0 when all arrive at once."""
        return self.work_s / (self.span_s * cluster.total_slots) if self.span_s > 0 else 0.0

    def faster(self, times: float) -> Survey:
        """Return the same with arrivals `times` as fast."""
        first_s, last_s = self.arrives_s
        return replace(self, arrives_s=(first_s / times, last_s / times))

    def slots_for(self, load: float) -> int:
        """Return how many slots the work fills to a share of `load` (above 0) while jobs arrive."""
        return max(1, ceil(self.work_s / (self.span_s * load))) if self.span_s > 0 else 1


def survey(trace: Trace) -> Survey:
    """Read a whole trace once. Raises TraceError, QuicksilverError when there is no job in it."""
    jobs = tasks = 0
    work_s, first_s, last_s, longest_s = 0.0, 0.0, 0.0, 0.0
    estimates_s: list[float] = []
    queues: dict[str, None] = {}
    digest, mistakes = sha256(), Mistakes(skip=trace.source.skip)
    for job in trace.source.stream(mistakes):
        first_s = job.arrives_s if not jobs else first_s
        last_s = job.arrives_s
        jobs += 1
        tasks += len(job.durations_s)
        work_s += job.work_s
        longest_s = max(longest_s, *job.durations_s, 0.0)
        estimates_s.append(job.estimate_s)
        if len(queues) < _QUEUES:
            queues[job.queue] = None
        digest.update(repr(job).encode())
    if not jobs:
        raise QuicksilverError("there is no job in it", place=trace.source.name, remedy="give a trace with jobs")
    long_s, known = percentile(estimates_s, LONG_PERCENTILE), digest.hexdigest()[:16]
    arrives_s, left_out, first = (first_s, last_s), tuple(mistakes.words()), tuple(mistakes.first)
    return Survey(jobs, tasks, work_s, arrives_s, long_s, longest_s, known, left_out, first, tuple(queues))
