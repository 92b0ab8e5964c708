"""What changes a stream of jobs on its way: fewer jobs, another load, wrong estimates; and what a stream amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Final, Literal

from quicksilver.simulator.model import SimulatedJob

Errors = Literal["both", "under", "over"]
"""Which way estimates are wrong: either (Hawk, thesis §2.4.8), too low or too high (Eagle, thesis §3.6.5)."""
_RANGES: Final[dict[str, tuple[float, float]]] = {"both": (-1.0, 1.0), "under": (-1.0, 0.0), "over": (0.0, 1.0)}


def head(jobs: Iterable[SimulatedJob], count: int | None) -> Iterator[SimulatedJob]:
    """Yield the first `count` jobs, all of them for None."""
    return islice(jobs, count)


def faster(jobs: Iterable[SimulatedJob], times: float) -> Iterator[SimulatedJob]:
    """Yield jobs that arrive `times` as fast, so that they are `times` the load. Raises ValueError at or below 0."""
    if not 0 < times < float("inf"):
        raise ValueError(f"arrivals {times} times as fast: give more than 0")
    return (replace(job, arrives_s=job.arrives_s / times) for job in jobs)


def misestimated(
    jobs: Iterable[SimulatedJob], error: float, seed: int, which: Errors = "both"
) -> Iterator[SimulatedJob]:
    """Yield jobs whose estimates are wrong by a share of up to `error`, uniformly; durations stay as they are.

    Hawk's range 0.1-1.9 is an error of 0.9, "both". Eagle's [1, 1.x] are errors of 0.3, 0.6, 0.9, "over", its [0.x, 1]
    errors of 0.7, 0.4, 0.1, "under". Raises ValueError for an error outside of 0..1.
    """
    if not 0 <= error <= 1:
        raise ValueError(f"an error of {error}: give a share, 0 to 1")
    low, high = (1 + error * end for end in _RANGES[which])
    rng = Random(f"estimates {seed}")
    return (replace(job, estimate_s=job.estimate_s * rng.uniform(low, high)) for job in jobs)


@dataclass(frozen=True, slots=True)
class Measure:
    """What a stream of jobs amounts to."""

    jobs: int = 0
    tasks: int = 0
    work_s: float = 0.0
    """Seconds of all tasks together."""
    first_s: float = 0.0
    """The first arrival, and the last."""
    last_s: float = 0.0
    most_tasks: int = 0
    """Of one job."""
    longest_s: float = 0.0
    """Of one task."""
    long_jobs: int = 0
    """Jobs whose estimate is above a cut-off, if one was given."""
    long_work_s: float = 0.0

    @property
    def slots(self) -> float:
        """Slots that the work keeps busy from the first arrival to the last; 0 when all arrive at once."""
        span_s = self.last_s - self.first_s
        return self.work_s / span_s if span_s > 0 else 0.0


def measured(jobs: Iterable[SimulatedJob], cutoff_s: float | None = None) -> Measure:
    """Read a stream to its end, and return what it amounts to. cutoff_s: jobs of longer estimates are long."""
    count = tasks = most = long_jobs = 0
    work_s = longest_s = long_work_s = last_s = 0.0
    first_s: float | None = None
    for job in jobs:
        own_s = job.work_s
        first_s = job.arrives_s if first_s is None else first_s
        last_s = job.arrives_s
        count, tasks, work_s = count + 1, tasks + len(job.durations_s), work_s + own_s
        most, longest_s = max(most, len(job.durations_s)), max(longest_s, *job.durations_s)
        if cutoff_s is not None and job.estimate_s > cutoff_s:
            long_jobs, long_work_s = long_jobs + 1, long_work_s + own_s
    return Measure(count, tasks, work_s, first_s or 0.0, last_s, most, longest_s, long_jobs, long_work_s)


def speed_for(measure: Measure, slots: int, load: float) -> float:
    """Return how many times as fast jobs must arrive so that their work is `load` of what `slots` can do meanwhile.

    Raises ValueError when no speed does: no load, or jobs that all arrive at once.
    """
    if not (slots > 0 and load > 0 and measure.slots > 0):
        raise ValueError(
            f"a load of {load} on {slots} slots: give more than 0, and jobs that arrive one after the other"
        )
    return slots * load / measure.slots
