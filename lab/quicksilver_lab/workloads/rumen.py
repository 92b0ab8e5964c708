"""Rumen's traces of finished jobs: written from the JobHistoryServer's files, and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.history import JobHistory


@dataclass(frozen=True, slots=True)
class TracedJob:
    """A job in a trace; times in ms since 1970. `launched_ms` includes waiting for containers."""

    id: str
    name: str
    queue: str
    outcome: str
    maps: int
    reduces: int
    submitted_ms: int
    launched_ms: int
    finished_ms: int


def make_trace(cluster: Cluster, jobs: Sequence[str], progress: Callable[[str], None] = clients.silent) -> Path:
    """Let Rumen's TraceBuilder make a trace of finished jobs; return its file, rumen/trace.json in the workdir.

    Raises JobFailedError when TraceBuilder fails, OutputError when history files do not come or the trace lacks a job.
    """
    progress(f"waiting for the history files of {len(jobs)} jobs")
    files = JobHistory(cluster).files(list(jobs))
    folder = cluster.spec.workdir / "rumen"
    folder.mkdir(exist_ok=True)
    trace = folder / "trace.json"
    sources = [f"hdfs://{cluster.spec.namenode}{path}" for path in files]
    targets = [trace.as_uri(), (folder / "topology.json").as_uri()]
    log = clients.start(cluster, "rumen", "rumen", [*targets, *sources])
    log.wait()
    missing = sorted(set(jobs) - {job.id for job in read_trace(trace)})
    if missing:
        raise OutputError(f"Rumen left out {', '.join(missing)}", place=str(trace), remedy=f"read {log.log}")
    progress(f"Rumen's trace of {len(jobs)} jobs: {trace}")
    return trace


def read_trace(trace: Path) -> list[TracedJob]:
    """Return the jobs of a trace, which is one JSON object after the other.

    Raises OutputError naming the place of what is no job.
    """
    text, decoder, at = trace.read_text(), json.JSONDecoder(), 0
    jobs: list[TracedJob] = []
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            job, end = decoder.raw_decode(text, at)
            jobs.append(_traced(job))
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(f"no job at character {at}: {error!r}", place=str(trace)) from error
        at = end
    return jobs


def _traced(job: dict[str, object]) -> TracedJob:
    def number(key: str) -> int:
        return int(str(job[key]))

    return TracedJob(
        id=str(job["jobID"]),
        name=str(job["jobName"]),
        queue=str(job["queue"]),
        outcome=str(job["outcome"]),
        maps=number("totalMaps"),
        reduces=number("totalReduces"),
        submitted_ms=number("submitTime"),
        launched_ms=number("launchTime"),
        finished_ms=number("finishTime"),
    )
