"""Job history of a cluster: the JobHistoryServer's .jhist files, one job each, as Avro in JSON or binary (default).

Hadoop writes the version, the schema, then one event after the other (mapreduce.jobhistory.jhist.format).
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

from quicksilver.common.extras import missing
from quicksilver.simulator.traces.jsons import faults_named, object_of
from quicksilver.simulator.traces.lines import LONGEST, Mistakes, TraceError, leave_out, lines, met, unreadable
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

JSON_FORM: Final = "Avro-Json"
BINARY_FORM: Final = "Avro-Binary"
_SUBMITTED: Final = re.compile(r"job_\d+_\d+-(\d+)-")
_STAGES: Final = {"MAP": MAP, "REDUCE": REDUCE}
Event = tuple[str, str, Mapping[str, Any]]
"""Where it stands, its type, its fields."""


@dataclass(slots=True)
class _TaskAttempt:
    task: str
    stage: int
    start_ms: int
    end_ms: int | None = None


@dataclass(slots=True)
class _Story:
    """What the events of one job told so far."""

    submitted_ms: int | None = None
    name: str = ""
    user: str = ""
    queue: str = ""
    tasks: set[str] = field(default_factory=set)
    """Maps and reduces that were begun."""
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    attempts: dict[str, _TaskAttempt] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)
    """Of each task that was done: the attempt that did it."""


def read_jhist(path: Path, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of one file, or of all .jhist files in a folder and below, by submission. Raises TraceError.

    A task takes what the attempt that did it took, a reduce from the end of the last map on. Tasks that were not done,
    and jobs without any that was, are left out and counted. Events tell no memory: containers have 1024 MB.
    """
    return in_order(_submitted(path, mistakes), mistakes)


def _submitted(path: Path, mistakes: Mistakes | None) -> Iterator[Submitted]:
    for file in _files(path):
        try:
            submission, unfinished = _job(file)
        except TraceError as error:
            met(mistakes, error)
            continue
        leave_out(mistakes, UNFINISHED, unfinished)
        if submission.job.tasks:
            yield submission
        else:
            leave_out(mistakes, NO_TASKS)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [*path.rglob("*.jhist"), *path.rglob("*.jhist.gz")]
    if not files:
        raise TraceError("no .jhist files", place=str(path), remedy="copy the done folder of the JobHistoryServer here")

    def submitted(file: Path) -> tuple[int, str]:
        named = _SUBMITTED.match(file.name)
        return int(named[1]) if named else 0, str(file)

    return sorted(files, key=submitted)


def _job(path: Path) -> tuple[Submitted, int]:
    """Return a job, and how many of its tasks were not done. Raises TraceError."""
    story = _Story()
    for place, kind, event in _events(path):
        with faults_named(place, f"an event {kind} of a job's history"):
            _take(story, kind, event)
    if story.submitted_ms is None:
        raise TraceError("tells no submission", place=str(path), remedy="give a whole .jhist file")
    tasks = _tasks(story, str(path))
    job = JobSpec(0, 0.0, "job", tasks, story.queue or "default", story.user or "bench", name=story.name)
    at_ms = submitted_ms(story.submitted_ms, str(path))
    return Submitted(at_ms, str(path), job), len(story.tasks) - len(tasks)


def _take(story: _Story, kind: str, event: Mapping[str, Any]) -> None:
    if kind == "JOB_SUBMITTED":
        story.submitted_ms, story.name = int(event["submitTime"]), str(event["jobName"])
        story.user, story.queue = str(event["userName"]), str(event.get("jobQueueName") or "")
    elif kind == "JOB_QUEUE_CHANGED":
        story.queue = str(event["jobQueueName"])
    elif kind == "TASK_STARTED" and event["taskType"] in _STAGES:
        story.tasks.add(event["taskid"])
        names = str(event.get("splitLocations") or "").split(",")
        story.hosts[event["taskid"]] = tuple(dict.fromkeys(name for name in names if name))
    elif kind in ("MAP_ATTEMPT_STARTED", "REDUCE_ATTEMPT_STARTED"):
        stage = _STAGES[event["taskType"]]
        story.tasks.add(event["taskid"])
        story.attempts[event["attemptId"]] = _TaskAttempt(event["taskid"], stage, int(event["startTime"]))
    elif kind in ("MAP_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FINISHED"):
        story.attempts[event["attemptId"]].end_ms = int(event["finishTime"])
        story.done[event["taskid"]] = event["attemptId"]
    elif kind == "TASK_FINISHED" and event["taskType"] in _STAGES:
        by = event.get("successfulAttemptId")
        by = by.get("string") if isinstance(by, dict) else by  # a union's branch is named in JSON
        if by:
            story.done[event["taskid"]] = by
    elif kind == "TASK_FAILED":
        story.done.pop(event["taskid"], None)


def _tasks(story: _Story, place: str) -> tuple[TaskSpec, ...]:
    """Return the tasks that were done, maps first. Raises TraceError."""
    done = [story.attempts[by] for _, by in sorted(story.done.items()) if by in story.attempts]
    whole = [
        (attempt, span_ms(attempt.start_ms, attempt.end_ms, place)) for attempt in done if attempt.end_ms is not None
    ]
    map_ends = sorted(end for attempt, (_, end) in whole if attempt.stage == MAP)
    maps = [
        TaskSpec((end - start) / 1000, MAP, story.hosts.get(attempt.task, ()))
        for attempt, (start, end) in whole
        if attempt.stage == MAP
    ]
    reduces = [
        TaskSpec((end - after_maps(start, end, map_ends)) / 1000, REDUCE)
        for attempt, (start, end) in whole
        if attempt.stage == REDUCE
    ]
    return (*maps, *reduces)


def _events(path: Path) -> Iterator[Event]:
    if path.suffix == ".gz":
        return _json_events(path)
    try:
        with path.open("rb") as file:
            version = file.readline(100).decode("latin-1").strip()
    except OSError as error:
        raise unreadable(str(path), error) from error
    return _binary_events(path) if version == BINARY_FORM else _json_events(path)


def _json_events(path: Path) -> Iterator[Event]:
    text = lines(path)
    _, version = next(text, (0, ""))
    if version.strip() != JSON_FORM:
        problem = f"begins with {version[:40]!r}, not with {JSON_FORM} or {BINARY_FORM}"
        raise TraceError(problem, place=f"{path}:1", remedy="give a .jhist file; unpack a binary one")
    next(text, None)  # the schema, which every line names anew
    for number, line in text:
        event = object_of(line, str(path), number)
        with faults_named(f"{path}:{number}", "an event of a job's history"):
            (fields,) = event["event"].values()
            kind = str(event["type"])
        yield f"{path}:{number}", kind, fields


def _binary_events(path: Path) -> Iterator[Event]:
    if remedy := missing("fastavro"):
        raise TraceError("is in Avro's binary form, which needs fastavro", place=str(path), remedy=remedy)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as octets:
            yield from _decoded(path, octets)
    except (OSError, ValueError) as error:
        raise unreadable(str(path), error) from error


def _decoded(path: Path, octets: mmap.mmap) -> Iterator[Event]:
    """Yield the events behind the schema, which is the second line. Raises TraceError, ValueError."""
    from quicksilver.simulator.traces.formats.avro import reader

    file = cast(IO[bytes], octets)  # which reads no more than there is, whatever a length in it says
    octets.seek(octets.find(b"\n") + 1)
    read = reader(json.loads(octets.readline()[:LONGEST]))
    while (at := octets.tell()) < len(octets):
        place = f"{path}, byte {at}"
        try:
            event = read(file)
            kind, fields = event["type"], event["event"]
            if octets.tell() == at:
                raise ValueError("has no bytes")
        except (ValueError, KeyError, TypeError) as error:
            raise TraceError(f"no event: {error}", place=place, remedy="give a whole .jhist file") from error
        if not isinstance(fields, dict):
            raise TraceError("an event without fields", place=place, remedy="give a whole .jhist file")
        yield place, kind, fields
