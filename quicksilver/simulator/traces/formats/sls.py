"""Input of Hadoop's Scheduler Load Simulator (SLS): JSON objects one after the other, each a job. Read as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from quicksilver.simulator.traces.jsons import faults_named, objects
from quicksilver.simulator.traces.lines import Mistakes, TraceError, met
from quicksilver.simulator.traces.spec import (
    MAP,
    REDUCE,
    JobSpec,
    Submitted,
    TaskSpec,
    in_order,
    span_ms,
    submitted_ms,
)

NODES: Final = "num.nodes"
TASKS: Final = "job.tasks"
_DURATIONS: Final = ("container.duration.ms", "duration.ms")
_MOST_COPIES: Final = 10_000_000


def read_sls(path: Path, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of an SLS trace by submission; an object that only says how many nodes there are is none.

    A task takes as long as SLS runs its container: its duration, or from its begin to its end. Raises TraceError.
    """
    return in_order(_submitted(path, mistakes), mistakes)


def _submitted(path: Path, mistakes: Mistakes | None) -> Iterator[Submitted]:
    for line, record in objects(path, mistakes):
        if NODES in record and TASKS not in record:
            continue
        place = f"{path}:{line}"
        try:
            with faults_named(place, "SLS' fields of a job"):
                at_ms, copies = submitted_ms(record["job.start.ms"], place), _count(record, "job.count")
                job = _job(record, place)
        except TraceError as error:
            met(mistakes, error)
            continue
        yield from (Submitted(at_ms, place, job) for _ in range(copies))


def _job(record: Mapping[str, Any], place: str) -> JobSpec:
    """Return a job. Raises TraceError, and what `faults_named` turns into one."""
    tasks = [task for entry in record[TASKS] for task in [_task(entry, place)] * _count(entry, "count")]
    if not tasks:
        raise TraceError("a job without tasks", place=place, remedy=f"give it {TASKS}, or leave it out")
    kind, queue, user, name = (
        str(record.get(key) or "") for key in ("am.type", "job.queue.name", "job.user", "job.id")
    )
    return JobSpec(
        0,
        0.0,
        kind.lower() or "mapreduce",
        tuple(tasks),
        queue or "default",
        user or "default",
        memory_mb=max(int(entry.get("container.memory-mb", 1024)) for entry in record[TASKS]),
        name=name,
    )


def _task(task: Mapping[str, Any], place: str) -> TaskSpec:
    duration_ms = next((int(task[key]) for key in _DURATIONS if key in task), None)
    if duration_ms is None:
        start_ms, end_ms = span_ms(task["container.start.ms"], task["container.end.ms"], place)
        duration_ms = end_ms - start_ms
    if duration_ms <= 0:
        raise TraceError(
            f"a task of {duration_ms} ms", place=place, remedy="give it a duration above 0, as SLS wants it"
        )
    host = str(task.get("container.host") or "").rpartition("/")[2]
    stage = REDUCE if task.get("container.type") == "reduce" else MAP
    return TaskSpec(duration_ms / 1000, stage, (host,) if host else ())


def _count(of: Mapping[str, Any], key: str) -> int:
    """Return how many there are of a job or task; SLS takes one for less. Raises ValueError for too many."""
    count = max(1, int(of.get(key, 1)))
    if count > _MOST_COPIES:
        raise ValueError(f"{key}={count}")
    return count
