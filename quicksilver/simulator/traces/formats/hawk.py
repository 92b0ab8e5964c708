"""The text format of Hawk's, Eagle's and Kairos' simulators: one job a line, read and written as a stream.

`arrival tasks mean d1 d2 ...`, in seconds, between blanks: when the job arrives, how many tasks it has, their mean
duration as a scheduler is told it, and how long each of them runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import IO, Final

from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.traces.lines import Arrivals, Mistakes, TraceError, parsed

_APART_S: Final = 0.01
_FORM: Final = "write one job a line: arrival, tasks, mean duration, then one duration per task, in seconds"


def read_hawk(path: Path, mistakes: Mistakes | None = None, *, as_eagle: bool = False) -> Iterator[SimulatedJob]:
    """Yield the jobs of a text, whose lines are by arrival. Raises TraceError.

    as_eagle: what Eagle's public simulator makes of the same file: the mean and the durations lose what is behind the
    point, and jobs of one arrival come 0.01 s apart.
    """
    arrivals = Arrivals(from_first=False)

    def parse(text: str, place: str) -> SimulatedJob:
        job = _job(text, place)
        return SimulatedJob(0, arrivals.next(job.arrives_s, place), job.durations_s, job.estimate_s)

    numbered = enumerate(parsed(path, parse, mistakes), start=1)
    jobs = (SimulatedJob(number, job.arrives_s, job.durations_s, job.estimate_s) for number, job in numbered)
    return _whole(jobs) if as_eagle else jobs


def _job(text: str, place: str) -> SimulatedJob:
    """Return the job of one line. Raises TraceError."""
    words = text.split()
    try:
        arrives_s, tasks, estimate_s = float(words[0]), int(words[1]), float(words[2])
        durations_s = tuple(map(float, words[3:]))
    except (ValueError, IndexError) as error:
        problem = f"no job: {str(error)[:100]}" if len(words) > 2 else f"{len(words)} words instead of 4 or more"
        raise TraceError(problem, place=place, remedy=_FORM) from error
    if len(durations_s) != tasks or tasks < 1:
        problem = f"{len(durations_s)} durations of {tasks} tasks"
        raise TraceError(problem, place=place, remedy=_FORM)
    if not (isfinite(arrives_s + estimate_s + sum(durations_s)) and min(arrives_s, estimate_s, *durations_s) >= 0):
        raise TraceError("a time below 0, or none at all", place=place, remedy="write seconds from 0 up")
    return SimulatedJob(0, arrives_s, durations_s, estimate_s)


def _whole(jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
    read_s, last_s = -1.0, -1.0
    for job in jobs:
        last_s = last_s + _APART_S if job.arrives_s == read_s else job.arrives_s
        read_s = job.arrives_s
        durations_s = tuple(map(float, map(int, job.durations_s)))
        yield SimulatedJob(job.number, last_s, durations_s, float(int(job.estimate_s)))


def dump_hawk(jobs: Iterable[SimulatedJob], file: IO[str]) -> int:
    """Write jobs as text; return how many. Names, users, queues and sizes are lost; numbers are written as they are."""
    count = 0
    for job in jobs:
        count += 1
        words = [repr(job.arrives_s), str(len(job.durations_s)), repr(job.estimate_s), *map(repr, job.durations_s)]
        file.write(" ".join(words) + "\n")
    return count
