"""A trace as one names it on a command line: a file or folder, or `gen:NAME`; with all that changes it on its way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.traces.formats import registry as formats
from quicksilver.simulator.traces.generators import generate
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver.simulator.traces.shaping import Errors, faster, head, measured, misestimated, speed_for
from quicksilver.simulator.traces.spec import Stages, of_stages

GENERATED: Final = "gen:"


@dataclass(frozen=True, slots=True)
class Source:
    """Which jobs. Streams of equal sources are equal; each `stream` reads anew."""

    name: str
    """A file, a folder of job history, or a generator: gen:NAME, or gen:NAME:SEED."""
    fmt: str | None = None
    """Of `formats.FORMATS`; None: as the file begins."""
    stages: Stages = "all"
    skip: bool = False
    """Broken jobs are left out and counted, instead of ending the reading."""
    as_eagle: bool = False
    """The text format is read as Eagle's public simulator does: whole seconds, equal arrivals 0.01 s apart."""
    jobs: int | None = None
    """So many, the first ones; None: all, or as many as the generator's paper has."""
    seed: int = 1
    """Of generated jobs and of wrong estimates."""
    speed: float = 1.0
    """Arrivals come so many times as fast."""
    load: float | None = None
    """Share of `slots` that the work keeps busy, in place of `speed`; the trace is read twice then."""
    slots: int | None = None
    error: float = 0.0
    """Estimates are wrong by up to this share."""
    errors: Errors = "both"

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not (0 < self.speed < float("inf") and 0 <= self.error <= 1):
            raise ValueError(f"speed={self.speed}, error={self.error}: give a speed above 0, an error of 0 to 1")
        if (self.load is None) != (self.slots is None) or (self.load is not None and self.speed != 1.0):
            raise ValueError("give a load with the slots that it is a share of, and no speed with it")
        if self.load is not None and not (0 < self.load < float("inf") and (self.slots or 0) > 0):
            raise ValueError(f"load={self.load}, slots={self.slots}: give more than 0")

    @property
    def is_generated(self) -> bool:
        """Whether jobs come from a generator."""
        return self.name.startswith(GENERATED)

    @property
    def differs_by_seed(self) -> bool:
        """Whether another `seed` gives other jobs: those of a generator that is named without one."""
        return self.is_generated and ":" not in self.name.removeprefix(GENERATED)

    def stream(self, mistakes: Mistakes | None = None) -> Iterator[SimulatedJob]:
        """Yield the jobs, by arrival. mistakes: counts broken ones. Raises TraceError, NoSuchGeneratorError."""
        speed, mistakes = self.speed, mistakes or Mistakes(skip=self.skip)
        if self.load is not None and self.slots is not None:
            measure = measured(self._first(Mistakes(skip=mistakes.skip)))
            try:
                speed = speed_for(measure, self.slots, self.load)
            except ValueError as error:
                raise TraceError(str(error), place=self.name, remedy="leave the load out") from error
        jobs = self._first(mistakes)
        if speed != 1.0:
            jobs = faster(jobs, speed)
        return misestimated(jobs, self.error, self.seed, self.errors) if self.error else jobs

    def _first(self, mistakes: Mistakes) -> Iterator[SimulatedJob]:
        if self.is_generated:
            name, _, seed = self.name.removeprefix(GENERATED).partition(":")
            if seed and not seed.isdigit():
                raise TraceError(f"{seed!r} is no seed", place=self.name, remedy=f"write {GENERATED}{name}:7")
            return of_stages(generate(name, self.jobs, int(seed) if seed else self.seed), self.stages)
        if "://" in self.name:
            return head(of_stages(formats.recorded(self.name, mistakes), self.stages), self.jobs)
        path = Path(self.name)
        read = formats.read(path, self.fmt, stages=self.stages, mistakes=mistakes, as_eagle=self.as_eagle)
        return head(read, self.jobs)
