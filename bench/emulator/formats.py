"""Traces as jobs: SWIM's tables, Rumen's JSON, DynoYARN's JSON lines, lists of durations. Read as a stream; .gz too.

What is wrong is a TraceError with file, line and remedy. Arrivals count from the first job, numbers from 1.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from bench.emulator.model import MAP, REDUCE, JobSpec, TaskSpec
from rm_proxy.hints import PREFIX, tag_hints
from shell.errors import QuicksilverError

MAP_PRIORITY: Final = 20
REDUCE_PRIORITY: Final = 10
_LONGEST_JOB: Final = 256 * 2**20
"""Characters of one job in a Rumen trace."""
_LEXEME: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')


class TraceError(QuicksilverError):
    """A trace is not what it should be."""


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt") as file:
            yield cast(IO[str], file)
    except (UnicodeDecodeError, EOFError, OSError) as error:
        raise TraceError(f"cannot be read: {error}", place=str(path), remedy="give an intact trace") from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.rstrip("\n")


def read(path: Path) -> Iterator[JobSpec]:
    """Yield the jobs of a trace, whose format its first line tells. Raises TraceError, for a list of durations too."""
    _, line = next(_lines(path), (0, ""))
    if line.lstrip().startswith("{"):
        return read_dynoyarn(path) if '"appId"' in line else read_rumen(path)
    if "\t" in line:
        return read_swim(path)
    raise TraceError(
        "the format is not known",
        place=f"{path}:1",
        remedy="give a trace of SWIM, Rumen (JSON) or DynoYARN (JSON lines)",
    )


# SWIM


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
        found = [TaskSpec(self.least_s + input_bytes / mb / maps / self.map_mb_s)] * maps
        if shuffle_bytes:
            reduces = max(1, math.ceil(shuffle_bytes / mb / self.reduce_mb))
            seconds = self.least_s + (shuffle_bytes + output_bytes) / mb / reduces / self.reduce_mb_s
            found += [TaskSpec(seconds, REDUCE)] * reduces
        return tuple(found)


def read_swim(path: Path, model: SwimModel | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of a SWIM table: job, arrival (s), gap (s), bytes of input, shuffle, output. Raises TraceError."""
    model = model or SwimModel()
    first_s = None
    for number, (line, text) in enumerate(_lines(path), start=1):
        fields = text.split("\t")
        if len(fields) != 6:
            raise TraceError(
                f"{len(fields)} fields instead of 6: job, arrival, gap, input, shuffle and output, between tabs",
                place=f"{path}:{line}",
                remedy="give a table of SWIM's FB-2009 or FB-2010 samples",
            )
        try:
            arrives_s, _, read, shuffled, written = (int(field) for field in fields[1:])
        except ValueError as error:
            raise TraceError(str(error), place=f"{path}:{line}", remedy="write whole seconds and bytes") from error
        if min(arrives_s, read, shuffled, written) < 0:
            raise TraceError("a negative number", place=f"{path}:{line}", remedy="write seconds and bytes from 0 up")
        first_s = arrives_s if first_s is None else first_s
        tasks = model.tasks(read, shuffled, written)
        klass = "map" if tasks[-1].stage == MAP else "map-reduce"
        yield JobSpec(number, float(max(0, arrives_s - first_s)), klass, tasks, name=fields[0])


# Rumen


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file, each with its first line; they may span lines, and share one."""
    with _opened(path) as file:
        kept: list[str] = []
        depth, size, began = 0, 0, 1
        for number, line in enumerate(file, start=1):
            at = 0
            for lexeme in _LEXEME.finditer(line):
                if lexeme[0] == "{":
                    began = number if not depth else began
                    depth += 1
                elif lexeme[0] == "}":
                    depth -= 1
                    if not depth:
                        yield began, _object(path, began, "".join(kept) + line[at : lexeme.end()])
                        kept, size, at = [], 0, lexeme.end()
                if depth < 0:
                    raise TraceError("a } too many", place=f"{path}:{number}", remedy="give Rumen's trace as it is")
            kept.append(line[at:])
            size += len(kept[-1])
            if size > _LONGEST_JOB:
                raise TraceError(
                    f"a job of more than {_LONGEST_JOB} characters", place=f"{path}:{began}", remedy="leave it out"
                )
        if "".join(kept).strip():
            raise TraceError("ends within a job", place=f"{path}:{began}", remedy="give the whole trace")


def _object(path: Path, line: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        at = f"{path}:{line + error.lineno - 1}"
        raise TraceError(f"no JSON: {error.msg}", place=at, remedy="give the trace as it was written") from error
    if not isinstance(found, dict):
        raise TraceError("no JSON object", place=f"{path}:{line}", remedy="give one object per job")
    return found


def read_rumen(path: Path) -> Iterator[JobSpec]:
    """Yield the jobs of a Rumen trace, those without tasks left out. Raises TraceError.

    A task takes what its successful attempt took, a reduce from the end of the last map on; hosts are its input's.
    """
    first_ms, number = None, 0
    for line, job in _objects(path):
        with _told(path, line, "Rumen's fields of a job"):
            submitted_ms = int(job["submitTime"])
            maps = [(task, _attempt(task)) for task in job.get("mapTasks") or []]
            last_ms = max((end for _, (_, end) in maps), default=0)
            tasks = [TaskSpec((end - start) / 1000, MAP, _hosts(task)) for task, (start, end) in maps]
            for task in job.get("reduceTasks") or []:
                start, end = _attempt(task)
                tasks.append(TaskSpec((end - min(end, max(start, last_ms))) / 1000, REDUCE))
            memory_mb = max(int(job.get("jobMapMB") or 0), int(job.get("jobReduceMB") or 0))
            names = {key: str(job.get(key) or "") for key in ("queue", "user", "jobtype", "jobName", "jobID")}
        if not tasks:
            continue
        number += 1
        first_ms = submitted_ms if first_ms is None else first_ms
        yield JobSpec(
            number,
            max(0, submitted_ms - first_ms) / 1000,
            names["jobtype"].lower() or "job",
            tuple(tasks),
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


@contextmanager
def _told(path: Path, line: int, what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise TraceError(f"not {what}: {error!r}", place=f"{path}:{line}", remedy=f"give {what}") from error


# DynoYARN


def read_dynoyarn(path: Path) -> Iterator[JobSpec]:
    """Yield the jobs of a DynoYARN workload: one JSON object a line. Raises TraceError.

    Batches run one after the other; here the first one are maps, all others reduces. Labels, delays, GPUs, used
    resources and vcores beyond one are not emulated.
    """
    first_ms = None
    for number, (line, text) in enumerate(_lines(path), start=1):
        app = _object(path, line, text)
        with _told(path, line, "DynoYARN's fields of an application"):
            submitted_ms = int(app.get("submitTime", 0))
            batches = [(batch, _runtimes_ms(batch)) for batch in app["resourceRequestSpecs"]]
            batches = [(batch, runtimes) for batch, runtimes in batches if runtimes]
            tasks = [
                TaskSpec(ms / 1000, MAP if n == 0 else REDUCE) for n, (_, all_ms) in enumerate(batches) for ms in all_ms
            ]
            memory_mb = max((int(batch["resource"]["memoryMB"]) for batch, _ in batches), default=0)
            told_s = tag_hints(frozenset(map(str, app.get("applicationTags") or ()))).any_s
            kind, queue, user = (str(app.get(key) or "") for key in ("appType", "queue", "user"))
            name = str(app["appId"])
        if not tasks or memory_mb <= 0:
            raise TraceError(
                f"{name} asks for no container, or for one without memory",
                place=f"{path}:{line}",
                remedy="give runtimes, or numInstances and averageRuntime, and memoryMB",
            )
        first_ms = submitted_ms if first_ms is None else first_ms
        yield JobSpec(
            number,
            max(0, submitted_ms - first_ms) / 1000,
            kind.lower() or "job",
            tuple(tasks),
            queue or "default",
            user or "bench",
            told_s,
            memory_mb,
            name,
        )


def _runtimes_ms(batch: Mapping[str, Any]) -> list[int]:
    average = int(batch.get("averageRuntime") or 0)
    found = (
        [average] * int(batch.get("numInstances") or 0) if average else [int(ms) for ms in batch.get("runtimes") or []]
    )
    if any(ms < 0 for ms in found):
        raise ValueError("a runtime below 0")
    return found


def write_dynoyarn(jobs: Iterable[JobSpec], path: Path, app_type: str = "MAPREDUCE") -> int:
    """Write jobs as DynoYARN's JSON lines; return how many. Hosts are lost, and stragglers are written as they run."""
    count = 0
    with path.open("w") as file:
        for job in jobs:
            count += 1
            file.write(json.dumps(_dynoyarn(job, app_type), separators=(",", ":")) + "\n")
    return count


def _dynoyarn(job: JobSpec, app_type: str) -> dict[str, Any]:
    resource = {"memoryMB": job.memory_mb, "vcores": 1}
    batches = []
    for stage, priority in ((MAP, MAP_PRIORITY), (REDUCE, REDUCE_PRIORITY)):
        runtimes = [round(task.runs_s * 1000) for task in job.tasks if task.stage == stage]
        if runtimes:
            batches.append(
                {"runtimes": runtimes, "numInstances": len(runtimes), "resource": resource, "priority": priority}
            )
    return {
        "appId": job.name or f"application_0_{job.number:04d}",
        "appType": app_type,
        "submitTime": round(job.arrives_s * 1000),
        "queue": job.queue,
        "user": job.user,
        "applicationTags": [] if job.told_s is None else [f"{PREFIX}{job.told_s:.3f}"],
        "amResourceRequest": {"memoryMB": 1024, "vcores": 1},
        "resourceRequestSpecs": batches,
    }


# Durations


def read_durations(path: Path) -> list[float]:
    """Return a list of durations in seconds, one a line; `#` begins a comment. Raises TraceError."""
    found = []
    for line, text in _lines(path):
        words = text.partition("#")[0].strip()
        if not words:
            continue
        try:
            seconds = float(words)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            raise TraceError(
                f"{words[:40]!r} is no duration", place=f"{path}:{line}", remedy="write seconds from 0 up, one a line"
            )
        found.append(seconds)
    if not found:
        raise TraceError("no durations", place=str(path), remedy="write one a line, in seconds")
    return found
