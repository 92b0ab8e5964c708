"""Google-like jobs. The trace that Hawk, Eagle and Kairos used is not public in their form, and no table of it is.

Drawn so that what the thesis prints comes out (§2.2.1, Table 2.1): of 506,460 jobs 10 % are long, with 28 % of the
tasks and 83.65 % of the task-seconds; their mean task duration is 7.34 times that of the short ones; the cut-off is
that of Eagle's public traces; jobs arrive 1 s apart on average (§3.6.2). All else is assumed: 25 tasks a job,
which are fewer than the thesis' (17.3 million of Hawk's probes are behind long tasks, and 67 % of all, Table 3.2 and
§3.6.1: 28 tasks a short job, 35 in all; with these and such durations 15,000 nodes had more work than they can do);
many jobs have one task, as the thesis says of short ones (§3.6.3), the others exponentially many; durations are
exponential below the cut-off, and above it; 15,000 nodes are 88 % busy. It is good for trends alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from random import Random
from typing import Final

from quicksilver_lab.papers.workloads.clusters import Shape
from quicksilver_lab.papers.workloads.draws import Draw, below, tasks_of

CUTOFF_S: Final = 1129.532
LONG_JOBS: Final = 0.1


@dataclass(frozen=True, slots=True)
class GoogleKind:
    """A class of jobs."""

    name: str
    share: float
    """Of all jobs."""
    tasks: float
    """Of a job, on average."""
    mean_s: float
    """Of a job's tasks, on average over jobs."""
    long: bool

    @property
    def draw(self) -> Draw:
        """The mean duration of a job's tasks."""
        if not self.long:
            return below(self.mean_s, CUTOFF_S)
        return lambda rng: CUTOFF_S + rng.expovariate(1 / (self.mean_s - CUTOFF_S))


def _kinds(long: bool, alone: float, tasks: float, job_s: float, task_s: float) -> tuple[GoogleKind, GoogleKind]:
    """Return jobs of one task and wider ones.

    alone: share of the first; tasks: of a job on average; job_s, task_s: mean duration over jobs, and over tasks.
    """
    share, name = (LONG_JOBS, "long") if long else (1 - LONG_JOBS, "short")
    wide = (tasks - alone) / (1 - alone)
    wide_s = (task_s * tasks - job_s) / ((1 - alone) * (wide - 1))
    alone_s = (job_s - (1 - alone) * wide_s) / alone
    return (
        GoogleKind(f"{name}, one task", share * alone, 1.0, alone_s, long),
        GoogleKind(f"{name}, wide", share * (1 - alone), wide, wide_s, long),
    )


KINDS: Final = (*_kinds(False, 0.75, 20.0, 271.0, 120.0), *_kinds(True, 0.5, 70.0, 271.0 * 7.34, 1579.5))


@dataclass(frozen=True, slots=True)
class Google:
    """The workload."""

    @property
    def mean_work_s(self) -> float:
        """Task-seconds of a job on average."""
        return sum(kind.share * kind.tasks * kind.mean_s for kind in KINDS)

    def shapes(self, rng: Random) -> Iterator[Shape]:
        """Yield jobs without end."""
        weights = [kind.share for kind in KINDS]
        draws = [(kind, kind.draw) for kind in KINDS]
        while True:
            ((kind, draw),) = rng.choices(draws, weights)
            mean_s = draw(rng)
            # rounded up from 1 on, an exponential number is half a task more than its mean
            count = 1 if kind.tasks == 1 else max(1, ceil(rng.expovariate(1 / (kind.tasks - 0.5))))
            yield kind.name, tuple(tasks_of(rng, count, mean_s, sqrt(2 * mean_s)))
