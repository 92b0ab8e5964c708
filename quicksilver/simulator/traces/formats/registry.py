"""Which format a trace is of, by its first bytes; and reading whatever it is, as specs or as the simulator's jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final, TypeVar

from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.traces.formats.dynoyarn import read_dynoyarn
from quicksilver.simulator.traces.formats.hawk import read_hawk
from quicksilver.simulator.traces.formats.jhist import BINARY_FORM, JSON_FORM, read_jhist
from quicksilver.simulator.traces.formats.rumen import read_rumen
from quicksilver.simulator.traces.formats.sls import NODES, TASKS, read_sls
from quicksilver.simulator.traces.formats.swim import COLUMNS, read_swim
from quicksilver.simulator.traces.jobs import read_jobs
from quicksilver.simulator.traces.lines import Mistakes, TraceError, leave_out, lines, unreadable
from quicksilver.simulator.traces.spec import NO_TASKS, JobSpec, Stages, job_of, of_stages, spec_of

_STORE: Final = b"SQLite format 3\0"


def recorded(store: str | Path, mistakes: Mistakes | None) -> Iterator[SimulatedJob]:
    """Yield the jobs of a proxy's store: see `read_recorded`, whose database library takes a while to be imported."""
    from quicksilver.simulator.traces.formats.recorded import read_recorded

    return (record.job for record in read_recorded(store, mistakes))


_SPECS: Final[dict[str, Callable[[Path, Mistakes | None], Iterator[JobSpec]]]] = {
    "swim": lambda path, mistakes: read_swim(path, None, mistakes),
    "rumen": read_rumen,
    "sls": read_sls,
    "dynoyarn": read_dynoyarn,
    "jhist": read_jhist,
}
_JOBS: Final[dict[str, Callable[[Path, Mistakes | None], Iterator[SimulatedJob]]]] = {
    "hawk": read_hawk,
    "jobs": read_jobs,
    "store": recorded,
}
FORMATS: Final[tuple[str, ...]] = (*_JOBS, *_SPECS)
_KEYS: Final = {
    "rumen": ("mapTasks", "reduceTasks", "jobID"),
    "sls": (TASKS, NODES, "job.start.ms"),
    "dynoyarn": ("appId",),
    "jobs": ("durations_s",),
}
"""Keys of a JSON object that tell its format."""
_SEARCHED: Final = 100
"""Lines in which such a key is looked for."""
_NUMBER: Final = re.compile(r"[0-9.]+([eE][-+]?\d+)?")


def format_of(path: Path) -> str:
    """Return the format of a trace by how it begins. Raises TraceError when that tells none."""
    if path.is_dir():
        return "jhist"
    remedy = f"name it with --format (quicksilver trace: --from): {', '.join(FORMATS)}"
    if path.is_fifo():
        raise TraceError("the format of a pipe is not known", place=str(path), remedy=remedy)
    try:
        with path.open("rb") as file:
            begin = file.read(max(len(BINARY_FORM), len(_STORE)))
            if begin.startswith(BINARY_FORM.encode()):
                return "jhist"
            if begin.startswith(_STORE):
                return "store"
    except OSError as error:
        raise unreadable(str(path), error) from error
    text = lines(path)
    number, line = next(text, (1, ""))
    first = line.strip()
    if first.startswith("{") and not first.endswith("}"):  # an object that spans lines
        first += "".join(more for at, more in takewhile(lambda pair: pair[0] < number + _SEARCHED, text))
    fmt = _by_line(first)
    if fmt is None:
        problem = "the format is not known" if line else "it is empty, the format is not known"
        raise TraceError(problem, place=f"{path}:{number}", remedy=remedy)
    return fmt


def _by_line(line: str) -> str | None:
    if line == JSON_FORM:
        return "jhist"
    if line.startswith("{"):
        return next((fmt for fmt, keys in _KEYS.items() if any(f'"{key}"' in line for key in keys)), "rumen")
    words = line.split(maxsplit=3)
    numbers = [bool(_NUMBER.fullmatch(word)) for word in words[:3]]
    if "\t" in line and len(line.split("\t")) >= COLUMNS and not (len(words) > 3 and _fits(line)):
        return "swim"
    return "hawk" if numbers == [True] * 3 and len(words) > 3 else "swim" if "\t" in line else None


def _fits(line: str) -> bool:
    """Return whether a line is one of Hawk's, with as many durations as it has tasks."""
    words = line.split()
    return words[1].isdigit() and int(words[1]) == len(words) - 3


def read_specs(path: Path, fmt: str | None = None, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of a trace by arrival. fmt: of FORMATS; None: as it begins. Raises TraceError, also of no job."""
    fmt = fmt or format_of(path)
    specs = _SPECS[fmt](path, mistakes) if fmt in _SPECS else map(spec_of, _JOBS[fmt](path, mistakes))
    return _some(specs, str(path), mistakes)


def read(
    path: Path,
    fmt: str | None = None,
    *,
    stages: Stages = "all",
    mistakes: Mistakes | None = None,
    as_eagle: bool = False,
) -> Iterator[SimulatedJob]:
    """Yield the jobs of a trace by arrival, numbered from 1; jobs without a task that counts are left out and counted.

    fmt: of FORMATS; None: as it begins. stages: which tasks count, where the trace tells stages. as_eagle: see
    `read_hawk`. Raises TraceError, also where no job is left.
    """
    fmt = fmt or format_of(path)
    if fmt in _JOBS:
        reader = partial(read_hawk, as_eagle=as_eagle) if fmt == "hawk" else _JOBS[fmt]
        jobs = of_stages(reader(path, mistakes), stages)
    else:
        jobs = _with_tasks(_SPECS[fmt](path, mistakes), stages, mistakes)
    return _some(jobs, str(path), mistakes)


def _with_tasks(specs: Iterator[JobSpec], stages: Stages, mistakes: Mistakes | None) -> Iterator[SimulatedJob]:
    number = 0
    for spec in specs:
        job = job_of(spec, stages)
        if job is None:
            leave_out(mistakes, NO_TASKS)
            continue
        number += 1
        yield job if job.number == number else replace(job, number=number)


T = TypeVar("T")


def _some(jobs: Iterator[T], place: str, mistakes: Mistakes | None) -> Iterator[T]:
    """Yield jobs. Raises TraceError when there is none."""
    none = True
    for job in jobs:
        none = False
        yield job
    if none:
        omissions = ", ".join(mistakes.words()) if mistakes else ""
        problem = f"no job is left in it: {omissions}" if omissions else "no job is in it"
        raise TraceError(problem, place=place, remedy="give a trace with jobs, or name its format")
