"""Rumen's traces: JSON objects one after the other, each a MapReduce job with its attempts. Read as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quicksilver.simulator.traces.jsons import objects, told
from quicksilver.simulator.traces.lines import Mistakes, TraceError, met
from quicksilver.simulator.traces.spec import MAP, REDUCE, JobSpec, TaskSpec


def read_rumen(path: Path, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of a Rumen trace, those without tasks left out. Raises TraceError.

    A task takes what its successful attempt took, a reduce from the end of the last map on; hosts are its input's.
    """
    first_ms: int | None = None
    number = 0
    for line, job in objects(path, mistakes):
        try:
            with told(f"{path}:{line}", "Rumen's fields of a job"):
                submitted_ms = int(job["submitTime"])
                tasks = _tasks(job)
                if not tasks:
                    continue
                first_ms = submitted_ms if first_ms is None else first_ms
                number += 1
                found = _spec(number, max(0, submitted_ms - first_ms) / 1000, tasks, job)
        except TraceError as error:
            met(mistakes, error)
            continue
        yield found


def _tasks(job: Mapping[str, Any]) -> tuple[TaskSpec, ...]:
    maps = [(task, _attempt(task)) for task in job.get("mapTasks") or []]
    last_ms = max((end for _, (_, end) in maps), default=0)
    tasks = [TaskSpec((end - start) / 1000, MAP, _hosts(task)) for task, (start, end) in maps]
    for task in job.get("reduceTasks") or []:
        start, end = _attempt(task)
        tasks.append(TaskSpec((end - min(end, max(start, last_ms))) / 1000, REDUCE))
    return tuple(tasks)


def _spec(number: int, arrives_s: float, tasks: tuple[TaskSpec, ...], job: Mapping[str, Any]) -> JobSpec:
    memory_mb = max(int(job.get("jobMapMB") or 0), int(job.get("jobReduceMB") or 0))
    names = {key: str(job.get(key) or "") for key in ("queue", "user", "jobtype", "jobName", "jobID")}
    return JobSpec(
        number,
        arrives_s,
        names["jobtype"].lower() or "job",
        tasks,
        names["queue"] or "default",
        names["user"] or "bench",
        memory_mb=memory_mb if memory_mb > 0 else 1024,
        name=names["jobName"] or names["jobID"],
    )


def _attempt(task: Mapping[str, Any]) -> tuple[int, int]:
    """Return begin and end of the attempt that counts, in ms; of the task itself when there is none."""
    attempts = task.get("attempts") or []
    done = [attempt for attempt in attempts if attempt.get("result") == "SUCCESS"] or attempts
    one = done[-1] if done else task
    start, end = int(one["startTime"]), int(one["finishTime"])
    return start, max(start, end)


def _hosts(task: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(place["layers"][-1]) for place in task.get("preferredLocations") or []))
