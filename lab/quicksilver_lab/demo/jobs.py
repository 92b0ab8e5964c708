"""The demo's jobs, all distributed shell, Hadoop's own example of an application: their tasks, times and results."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.distributed_shell import JAR
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.rest import get_json

STEP_S: Final = 0.25
CONTAINER_MB: Final = 512
_TIMEOUT_S: Final = 300.0
_SCRIPT: Final = f"""\
#!/bin/sh
# usage: task.sh STEPS FOLDER: works STEPS steps of {STEP_S} s, then leaves a file that says so
done=0
while [ "$done" -lt "$1" ]; do
  sleep {STEP_S}
  done=$((done + 1))
done
echo "$done steps" > "$2/$CONTAINER_ID"
"""
"""A task that is stopped makes no progress, as one that computes: at most the rest of a step passes meanwhile."""


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One job to submit. at_s: seconds after the begin of the run."""

    name: str
    queue: str
    at_s: float
    tasks: int
    task_s: float

    @property
    def steps(self) -> int:
        """Steps of one task."""
        return round(self.task_s / STEP_S)


LONG: Final = DemoJob("long", "batch", 0.0, tasks=30, task_s=16.0)
SHORT: Final = tuple(DemoJob(f"short{n}", "default", 12.0 + 6.5 * n, tasks=2, task_s=2.0) for n in range(7))


@dataclass(frozen=True, slots=True)
class DemoJobRun:
    """A job that succeeded; times in Unix seconds, as the ResourceManager has them."""

    name: str
    application_id: str
    submitted_s: float
    finished_s: float
    results: tuple[str, ...]
    """What the tasks wrote, sorted."""

    @property
    def job_s(self) -> float:
        """Seconds from the submission to the end."""
        return self.finished_s - self.submitted_s


def write_task(folder: Path) -> Path:
    """Write the script of a task; return its path."""
    script = folder / "task.sh"
    script.write_text(_SCRIPT)
    return script


def run_jobs(cluster: Cluster, way: str, jobs: Sequence[DemoJob], progress: Callable[[str], None]) -> list[DemoJobRun]:
    """Submit each job at its time and wait for all. Raises JobFailedError, OutputError."""
    script = write_task(cluster.spec.workdir)
    begin_s = time.monotonic()
    with Clients() as together:
        started = []
        for job in sorted(jobs, key=lambda job: job.at_s):
            time.sleep(max(0.0, begin_s + job.at_s - time.monotonic()))
            folder = cluster.spec.workdir / "results" / way / job.name
            folder.mkdir(parents=True, exist_ok=True)
            for file in folder.iterdir():
                file.unlink()
            arguments = _arguments(cluster, job, script, folder)
            client = clients.start(cluster, f"{way}-{job.name}", "distributedshell", arguments)
            started.append((job, together.add(client), folder))
        runs = []
        for job, client, folder in started:
            runs.append(_ended(cluster, job, client.wait(_TIMEOUT_S), folder))
            progress(f"{way}: {job.name} took {runs[-1].job_s:.1f} s")
    return runs


def _arguments(cluster: Cluster, job: DemoJob, script: Path, folder: Path) -> list[str]:
    return [
        *("-jar", str(cluster.artifact(JAR))),
        *("-appname", f"DistributedShell {job.name}"),  # by this the preset `default` knows it
        *("-queue", job.queue),
        *("-master_memory", str(CONTAINER_MB)),
        *("-container_memory", str(CONTAINER_MB)),
        *("-container_vcores", "1"),
        *("-num_containers", str(job.tasks)),
        *("-shell_command", shlex.join(["sh", str(script), str(job.steps), str(folder)])),
    ]


def _ended(cluster: Cluster, job: DemoJob, text: str, folder: Path) -> DemoJobRun:
    application = clients.application_id(text)
    app: dict[str, Any] = get_json(f"{cluster.rm_rest}/ws/v1/cluster/apps/{application}")["app"]
    if app["finalStatus"] != "SUCCEEDED":
        raise JobFailedError(f"ended as {app['finalStatus']}: {app['diagnostics']}", place=f"{job.name}, {application}")
    results = tuple(sorted(file.read_text().strip() for file in folder.iterdir()))
    return DemoJobRun(job.name, application, app["startedTime"] / 1000, app["finishedTime"] / 1000, results)
