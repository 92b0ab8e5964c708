"""SWIM's tables of MapReduce jobs (Chen et al., MASCOTS 2011): bytes, of which tasks are made. Read as a stream."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quicksilver.simulator.traces.lines import Arrivals, Mistakes, TraceError, parsed
from quicksilver.simulator.traces.spec import MAP, REDUCE, JobSpec, TaskSpec


@dataclass(frozen=True, slots=True)
class SwimModel:
    """How bytes become tasks: SWIM's tables tell neither tasks nor durations. Rates and sizes are assumptions."""

    map_mb: float = 128.0
    """Input of one map."""
    map_mb_s: float = 25.0
    reduce_mb: float = 512.0
    """Shuffled bytes of one reduce."""
    reduce_mb_s: float = 12.5
    """Of shuffled and written bytes together."""
    least_s: float = 1.0
    """A task takes this, and its bytes' time."""

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not (min(self.map_mb, self.map_mb_s, self.reduce_mb, self.reduce_mb_s) > 0 and self.least_s >= 0):
            raise ValueError("sizes and rates of a SwimModel must be above 0, least_s not below")

    def tasks(self, input_bytes: int, shuffle_bytes: int, output_bytes: int) -> tuple[TaskSpec, ...]:
        """Return a job's tasks; without shuffled bytes it has no reduces."""
        mb = 2.0**20
        maps = max(1, math.ceil(input_bytes / mb / self.map_mb))
        specs = [TaskSpec(self.least_s + input_bytes / mb / maps / self.map_mb_s)] * maps
        if shuffle_bytes:
            reduces = max(1, math.ceil(shuffle_bytes / mb / self.reduce_mb))
            seconds = self.least_s + (shuffle_bytes + output_bytes) / mb / reduces / self.reduce_mb_s
            specs += [TaskSpec(seconds, REDUCE)] * reduces
        return tuple(specs)


COLUMNS = 6
MOST_BYTES = 2**50
"""Of one job: a petabyte, which are 8 million maps."""


def read_swim(path: Path, model: SwimModel | None = None, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of a SWIM table: job, arrival (s), gap (s), bytes of input, shuffle, output. Raises TraceError.

    Columns behind these are paths, as in the FB-2010 samples with input paths, and do not count.
    """
    model = model or SwimModel()
    arrivals = Arrivals(from_first=True)

    def parse(text: str, place: str) -> tuple[float, str, tuple[TaskSpec, ...]]:
        name, arrives_s, sizes = _fields(text, place)
        return arrivals.next(arrives_s, place), name, model.tasks(*sizes)

    for number, (arrives_s, name, tasks) in enumerate(parsed(path, parse, mistakes), start=1):
        klass = "map" if tasks[-1].stage == MAP else "map-reduce"
        yield JobSpec(number, arrives_s, klass, tasks, name=name)


def _fields(text: str, place: str) -> tuple[str, float, tuple[int, int, int]]:
    """Return name, arrival and the bytes of one line. Raises TraceError."""
    fields = text.split("\t")
    if len(fields) < COLUMNS:
        problem = (
            f"{len(fields)} fields; a job has {COLUMNS}: job, arrival, gap, input, shuffle and output, between tabs"
        )
        raise TraceError(problem, place=place, remedy="give a table of SWIM's FB-2009 or FB-2010 samples")
    try:
        arrives_s, _, read, shuffled, written = (int(field) for field in fields[1:COLUMNS])
    except ValueError as error:
        raise TraceError(str(error), place=place, remedy="write whole seconds and bytes") from error
    if min(arrives_s, read, shuffled, written) < 0:
        raise TraceError("a negative number", place=place, remedy="write seconds and bytes from 0 up")
    if max(arrives_s, read, shuffled, written) > MOST_BYTES:
        raise TraceError(f"a number above {MOST_BYTES}", place=place, remedy="leave the job out")
    return fields[0], float(arrives_s), (read, shuffled, written)
