"""Rumen's traces: JSON objects one after the other, each a MapReduce job with its attempts. Read as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from quicksilver.simulator.traces.jsons import faults_named, objects
from quicksilver.simulator.traces.lines import Mistakes, TraceError, leave_out, met
from quicksilver.simulator.traces.spec import (
    MAP,
    NO_TASKS,
    REDUCE,
    UNFINISHED,
    JobSpec,
    Submitted,
    TaskSpec,
    after_maps,
    in_order,
    span_ms,
    submitted_ms,
)

_SUCCESS: Final = "SUCCESS"


def read_rumen(path: Path, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of a Rumen trace by submission. Raises TraceError.

    A task takes what its successful attempt took, a reduce from the end of the last map on; hosts are its input's.
    Tasks without such an attempt, and jobs without any other task, are left out and counted.
    """
    return in_order(_submitted(path, mistakes), mistakes)


def _submitted(path: Path, mistakes: Mistakes | None) -> Iterator[Submitted]:
    for line, job in objects(path, mistakes):
        place = f"{path}:{line}"
        try:
            with faults_named(place, "Rumen's fields of a job"):
                at_ms = submitted_ms(job["submitTime"], place)
                tasks = _tasks(job, place)
                spec = _spec(tasks, job)
        except TraceError as error:
            met(mistakes, error)
            continue
        leave_out(
            mistakes, UNFINISHED, sum(len(job.get(kind) or []) for kind in ("mapTasks", "reduceTasks")) - len(tasks)
        )
        if tasks:
            yield Submitted(at_ms, place, spec)
        else:
            leave_out(mistakes, NO_TASKS)


def _tasks(job: Mapping[str, Any], place: str) -> tuple[TaskSpec, ...]:
    maps = [(task, span) for task in job.get("mapTasks") or [] if (span := _span(task, place))]
    map_ends = sorted(end for _, (_, end) in maps)
    tasks = [TaskSpec((end - start) / 1000, MAP, _hosts(task)) for task, (start, end) in maps]
    for task in job.get("reduceTasks") or []:
        if span := _span(task, place):
            start, end = span
            tasks.append(TaskSpec((end - after_maps(start, end, map_ends)) / 1000, REDUCE))
    return tuple(tasks)


def _spec(tasks: tuple[TaskSpec, ...], job: Mapping[str, Any]) -> JobSpec:
    memory_mb = max(int(job.get("jobMapMB") or 0), int(job.get("jobReduceMB") or 0))
    names = {key: str(job.get(key) or "") for key in ("queue", "user", "jobtype", "jobName", "jobID")}
    return JobSpec(
        0,
        0.0,
        names["jobtype"].lower() or "job",
        tasks,
        names["queue"] or "default",
        names["user"] or "bench",
        memory_mb=memory_mb if memory_mb > 0 else 1024,
        name=names["jobName"] or names["jobID"],
    )


def _span(task: Mapping[str, Any], place: str) -> tuple[int, int] | None:
    """Return begin and end of the last successful attempt, in ms; of a task without attempts its own. None of neither.

    Raises TraceError.
    """
    attempts = task.get("attempts") or []
    done = [attempt for attempt in attempts if attempt.get("result", _SUCCESS) == _SUCCESS]
    if not attempts and task.get("taskStatus", _SUCCESS) == _SUCCESS:
        done = [task]
    return span_ms(done[-1]["startTime"], done[-1]["finishTime"], place) if done else None


def _hosts(task: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(place["layers"][-1]) for place in task.get("preferredLocations") or []))
