"""DynoYARN's workloads: one application a line, as JSON. Read and written as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from quicksilver.simulator.traces.jsons import faults_named, records
from quicksilver.simulator.traces.lines import Mistakes, TraceError, met
from quicksilver.simulator.traces.spec import MAP, JobSpec, Submitted, TaskSpec, in_order, submitted_ms
from rm_proxy.estimates.duration_tags import PREFIX, tag_hints

MAP_PRIORITY: Final = 20
REDUCE_PRIORITY: Final = 10
_MOST_TASKS: Final = 10_000_000


def read_dynoyarn(path: Path, mistakes: Mistakes | None = None) -> Iterator[JobSpec]:
    """Yield the jobs of a DynoYARN workload by submission: one JSON object a line, or indented. Raises TraceError.

    Batches are stages that run one after the other; the first one are maps. Labels, delays, GPUs, used
    resources and vcores beyond one are not emulated.
    """
    return in_order(_submitted(path, mistakes), mistakes)


def _submitted(path: Path, mistakes: Mistakes | None) -> Iterator[Submitted]:
    for line, app in records(path, mistakes):
        try:
            submission = _spec(app, f"{path}:{line}")
        except TraceError as error:
            met(mistakes, error)
            continue
        yield submission


def _spec(app: Mapping[str, Any], place: str) -> Submitted:
    """Return an application as a job. Raises TraceError."""
    with faults_named(place, "DynoYARN's fields of an application"):
        batches = [(batch, _runtimes_ms(batch)) for batch in app["resourceRequestSpecs"]]
        at_ms = submitted_ms(app["submitTime"], place)
        batches = [(batch, runtimes) for batch, runtimes in batches if runtimes]
        tasks = [TaskSpec(ms / 1000, stage) for stage, (_, all_ms) in enumerate(batches) for ms in all_ms]
        memory_mb = max((int(batch["resource"]["memoryMB"]) for batch, _ in batches), default=0)
        told_s = tag_hints(frozenset(map(str, app.get("applicationTags") or ()))).any_s
        kind, queue, user = (str(app.get(key) or "") for key in ("appType", "queue", "user"))
        name = str(app["appId"])
    if not tasks or memory_mb <= 0:
        problem = f"{name} asks for no container, or for one without memory"
        raise TraceError(problem, place=place, remedy="give runtimes, or numInstances and averageRuntime, and memoryMB")
    job = JobSpec(
        0, 0.0, kind.lower() or "job", tuple(tasks), queue or "default", user or "bench", told_s, memory_mb, name
    )
    return Submitted(at_ms, place, job)


def _runtimes_ms(batch: Mapping[str, Any]) -> list[int]:
    average, count = int(batch.get("averageRuntime") or 0), int(batch.get("numInstances") or 0)
    if average and count > _MOST_TASKS:
        raise ValueError(f"more than {_MOST_TASKS} tasks")
    all_ms = [average] * count if average else [int(ms) for ms in batch.get("runtimes") or []]
    if count < 0 or any(ms < 0 for ms in all_ms):
        raise ValueError("a runtime, or a number of instances, below 0")
    if count and not all_ms:
        raise ValueError(f"{count} instances without runtimes or averageRuntime")
    return all_ms


def write_dynoyarn(jobs: Iterable[JobSpec], path: Path, app_type: str = "MAPREDUCE") -> int:
    """Write jobs as DynoYARN's JSON lines; return how many. Hosts are lost, and stragglers are written as they run."""
    with path.open("w") as file:
        return dump_dynoyarn(jobs, file, app_type)


def dump_dynoyarn(jobs: Iterable[JobSpec], file: IO[str], app_type: str = "MAPREDUCE") -> int:
    """The same to an open file."""
    count = 0
    for job in jobs:
        count += 1
        file.write(json.dumps(_dynoyarn(job, app_type), separators=(",", ":")) + "\n")
    return count


def _dynoyarn(job: JobSpec, app_type: str) -> dict[str, Any]:
    resource = {"memoryMB": job.memory_mb, "vcores": 1}
    batches = []
    for stage in sorted({task.stage for task in job.tasks}):
        priority = MAP_PRIORITY if stage == MAP else REDUCE_PRIORITY
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
