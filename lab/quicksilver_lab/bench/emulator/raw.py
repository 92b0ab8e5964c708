"""Runs as JSON holds them: samples and tasks as rows, moments in seconds with three digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, RunResult, TaskRecord

TASK_ROW: Final = ("index", "wanted_s", "granted_s", "started_s", "ended_s", "attempts", "killed", "lost_s")
SAMPLE_ROW: Final = ("at_s", "running", "queued", "used_slots")


def packed(run: RunResult) -> dict[str, Any]:
    """Return a run as JSON holds it; `unpacked` is the way back, but for the nodes of tasks."""
    plain = {name: value for name, value in asdict(run).items() if name not in ("jobs", "samples")}
    return plain | {
        "samples": [[_short(getattr(sample, name)) for name in SAMPLE_ROW] for sample in run.samples],
        "jobs": [_job(job) for job in run.jobs],
    }


def _job(job: JobRecord) -> dict[str, Any]:
    return {
        "number": job.number,
        "klass": job.klass,
        "submitted_s": _short(job.submitted_s),
        "registered_s": _short(job.registered_s),
        "ended_s": _short(job.ended_s),
        "errors": job.errors,
        "work_s": _short(job.work_s),
        "queue": job.queue,
        "user": job.user,
        "tasks": [[_short(getattr(task, name)) for name in TASK_ROW] for task in job.tasks],
    }


def _short(value: float | None) -> float | None:
    return round(value, 3) if isinstance(value, float) else value


def unpacked(data: Mapping[str, Any]) -> RunResult:
    """Return the run that was packed. Raises KeyError, TypeError when it is none."""
    jobs = [
        JobRecord(
            **{name: value for name, value in job.items() if name != "tasks"},
            tasks=[TaskRecord(job["number"], **dict(zip(TASK_ROW, row, strict=True))) for row in job["tasks"]],
        )
        for job in data["jobs"]
    ]
    samples = [EmulatedSample(*row) for row in data["samples"]]
    plain = {name: value for name, value in data.items() if name not in ("jobs", "samples")}
    return RunResult(**plain, jobs=jobs, samples=samples)
