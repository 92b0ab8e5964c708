"""Generators by name: jobs of the papers' workloads, without end, by seed. Equal seeds give equal jobs.

They are those of yarn-quicksilver-lab, where it is installed. Arrivals and shapes are drawn apart: another rate leaves
the jobs as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from random import Random
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.version import missing
from quicksilver.simulator.model import SimulatedJob

LAB_PACKAGE: Final = "quicksilver_lab"
_PLACE: Final = f"{LAB_PACKAGE}.papers.workloads.generators"


class NoSuchGeneratorError(QuicksilverError):
    """A name that no generator has."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A workload that can be drawn."""

    name: str
    about: str
    """What it is, and from which paper."""
    jobs: int
    """As many as the paper has."""
    interarrival_s: float
    """Mean time between two arrivals, which are Poisson."""
    mean_work_s: float
    """Task-seconds of a job on average."""
    shapes: Callable[[Random], Iterator[tuple[str, tuple[float, ...], float | None]]]
    """Class, durations and estimate (None: their mean) of jobs without end."""
    cutoff_s: float | None = None
    """Jobs of a longer estimate are long, for the paper."""
    short_share: float | None = None
    """Of the nodes: the partition that the papers keep for short jobs."""
    stages: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """How many tasks the stages of a class have, where it has several."""


@cache
def generators() -> Mapping[str, Generator]:
    """Return all generators by name; none without yarn-quicksilver-lab."""
    if find_spec(LAB_PACKAGE) is None:
        return {}
    known: Mapping[str, Generator] = import_module(_PLACE).GENERATORS
    return known


def generator(name: str) -> Generator:
    """Return the generator of that name. Raises NoSuchGeneratorError."""
    known = generators()
    if not known:
        raise NoSuchGeneratorError(missing("trace generate", LAB_PACKAGE))
    if name not in known:
        close = get_close_matches(name, known, n=1)
        remedy = f"take {close[0]}" if close else f"choose from {', '.join(known)}"
        raise NoSuchGeneratorError(f"no generator is named {name!r}", remedy=remedy)
    return known[name]


def generate(
    name: str,
    jobs: int | None = None,
    seed: int = 1,
    *,
    interarrival_s: float | None = None,
    load_slots: float | None = None,
) -> Iterator[SimulatedJob]:
    """Yield `jobs` jobs of a workload, as many as the paper has for None; times are whole milliseconds.

    interarrival_s: mean time between arrivals; load_slots: slots that the work keeps busy on average, which sets it.
    Raises NoSuchGeneratorError; ValueError for both, or for what is not above 0.
    """
    entry = generator(name)
    every_s = _every_s(entry, interarrival_s, load_slots)
    arrivals, shapes = Random(f"{name} arrivals {seed}"), Random(f"{name} shapes {seed}")
    return islice(_jobs(entry, every_s, arrivals, shapes), entry.jobs if jobs is None else jobs)


def _every_s(entry: Generator, interarrival_s: float | None, load_slots: float | None) -> float:
    if interarrival_s is not None and load_slots is not None:
        raise ValueError("give the time between arrivals or the load, not both")
    every_s = entry.interarrival_s if interarrival_s is None else interarrival_s
    if load_slots is not None:
        every_s = entry.mean_work_s / load_slots if load_slots > 0 else 0.0
    if not 0 < every_s < float("inf"):
        raise ValueError("time between arrivals and load must be above 0")
    return every_s


def _jobs(entry: Generator, every_s: float, arrivals: Random, shapes: Random) -> Iterator[SimulatedJob]:
    at_s = 0.0
    for number, (kind, durations_s, told_s) in enumerate(entry.shapes(shapes), start=1):
        at_s += arrivals.expovariate(1 / every_s)
        estimate_s = sum(durations_s) / len(durations_s) if told_s is None else told_s
        yield SimulatedJob(
            number, round(at_s, 3), durations_s, estimate_s, name=kind, stages=entry.stages.get(kind, ())
        )
