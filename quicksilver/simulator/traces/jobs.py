"""Jobs as JSON lines with the names of their fields: all of a `SimulatedJob` or an `ApplicationJob` is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from math import isfinite
from pathlib import Path
from typing import IO, Any, Final

from quicksilver.simulator.model import ApplicationJob, SimulatedJob
from quicksilver.simulator.traces.jsons import faults_named, records
from quicksilver.simulator.traces.lines import Arrivals, Mistakes, TraceError, met

_FIELDS: Final = frozenset(field.name for field in fields(ApplicationJob))
_OF_APPLICATIONS: Final = _FIELDS - {field.name for field in fields(SimulatedJob)}
_FORM: Final = "write one object a line, at least with arrives_s and durations_s"


def read_jobs(path: Path, mistakes: Mistakes | None = None) -> Iterator[SimulatedJob]:
    """Yield the jobs of a file, whose lines are by arrival; they are numbered anew. Raises TraceError."""
    arrivals, number = Arrivals(from_first=False), 0
    for line, record in records(path, mistakes):
        place = f"{path}:{line}"
        try:
            job = _job(record, place)
            arrives_s = arrivals.next(job.arrives_s, place)
        except TraceError as error:
            met(mistakes, error)
            continue
        number += 1
        yield replace(job, number=number, arrives_s=arrives_s)


def _job(record: Mapping[str, Any], place: str) -> SimulatedJob:
    """Return the job of one object. Raises TraceError."""
    unknown = sorted(record.keys() - _FIELDS)
    if unknown:
        problem = f"no such fields: {', '.join(unknown)[:100]}"
        raise TraceError(problem, place=place, remedy=f"choose from {', '.join(sorted(_FIELDS))}")
    with faults_named(place, "the fields of a job"):
        durations_s = tuple(map(float, record["durations_s"]))
        mean_s = sum(durations_s) / len(durations_s) if durations_s else 0.0
        job = SimulatedJob(
            0,
            float(record["arrives_s"]),
            durations_s,
            float(record.get("estimate_s", mean_s)),
            str(record.get("name", "")),
            str(record.get("user", "")),
            str(record.get("queue", "default")),
            cores=float(record.get("cores", 1.0)),
            memory_mb=int(record.get("memory_mb", 1024)),
            stages=tuple(map(int, record.get("stages", ()))),
        )
    if not durations_s:
        raise TraceError("a job without tasks", place=place, remedy=_FORM)
    if record.keys() & _OF_APPLICATIONS:
        job = _application(job, record, place)
    numbers = (job.arrives_s, job.estimate_s, *durations_s)
    if not (isfinite(sum(numbers)) and min(numbers) >= 0):
        raise TraceError("a time below 0, or none at all", place=place, remedy="write seconds from 0 up")
    if not (0 < job.cores < float("inf") and job.memory_mb >= 0):
        problem = f"cores={job.cores}, memory_mb={job.memory_mb}"
        raise TraceError(problem, place=place, remedy="give cores above 0 and memory not below")
    return job


def _application(job: SimulatedJob, record: Mapping[str, Any], place: str) -> ApplicationJob:
    """Return a job that is an application, because it says how many of its tasks are core. Raises TraceError."""
    with faults_named(place, "the fields of an application"):
        core, klass, priority = int(record["core"]), str(record.get("klass", "")), int(record.get("priority", 0))
    if not 1 <= core <= len(job.durations_s):
        problem = f"core={core} of {len(job.durations_s)} components"
        raise TraceError(problem, place=place, remedy="give it at least one, and not more than there are")
    whole = {field.name: getattr(job, field.name) for field in fields(job)}
    return ApplicationJob(**whole, core=core, klass=klass, priority=priority)


def dump_jobs(jobs: Iterable[SimulatedJob], file: IO[str]) -> int:
    """Write jobs as JSON lines; return how many."""
    count = 0
    for job in jobs:
        count += 1
        file.write(json.dumps(asdict(job), separators=(",", ":")) + "\n")
    return count
