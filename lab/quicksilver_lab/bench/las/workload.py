"""One mode's run: all jobs of the workload, each with a master of its own, from the first arrival to the last end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from hadoop_rpc.errors import HadoopRpcError
from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench.las.jobs import TABLE, LasJob, LasScale, job_of
from quicksilver_lab.bench.las.master import Counts, LasMaster, LasSite
from quicksilver_lab.bench.las.modes import Mode, Progress
from quicksilver_lab.bench.las.umbilical import Umbilical, opened
from quicksilver_lab.bench.procstat import machine_cpu_s
from quicksilver_lab.cluster import Cluster

_SHOWN_EVERY_S: Final = 30.0
_STOP_S: Final = 20.0


class BenchError(QuicksilverError):
    """A run has nothing to show."""


@dataclass(slots=True)
class LasOutcome:
    """What became of one job; times in seconds."""

    number: int
    kind: str
    arrived_s: float
    """After the begin of the run."""
    completion_s: float | None = None
    """From its submission to the end of its last task; None when it did not finish."""
    first_task_s: float | None = None
    """From its submission to the begin of its first task."""
    broken: str = ""
    counts: dict[str, Any] = field(default_factory=dict)
    tasks: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class LasRun:
    """A whole run. wall_s: from the first arrival until the last job's end; busy: cores in use, of all programs."""

    outcomes: list[LasOutcome]
    wall_s: float
    busy_cores: float
    task_cores: float
    """Of these the tasks', as far as their work counted."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How masters go about it (master.Site), and for how long a workload is waited for."""

    heartbeat_s: float = 1.0
    setup_s: float = 0.5
    limit_s: float = 900.0


def site(cluster: Cluster, mode: Mode, umbilical: Umbilical, pace: Pace) -> LasSite:
    """Return where the masters of a mode live."""
    spec = cluster.spec
    hosts = tuple(node.host for node in spec.node_addresses)
    return LasSite(spec.rm_client, spec.scheduler, umbilical, hosts, mode.opportunistic, pace.heartbeat_s, pace.setup_s)


def awaited(job: LasJob) -> LasOutcome:
    """Return the outcome of a job that has not run yet."""
    return LasOutcome(job.number, job.kind, job.arrives_s, broken="not over in time", counts=asdict(Counts()))


async def live(where: LasSite, job: LasJob, begin_s: float, outcome: LasOutcome) -> None:
    """Submit one job now and stay with it to its end; what became of it, and what went wrong, goes into `outcome`."""
    submitted_s = time.time()
    outcome.arrived_s = submitted_s - begin_s
    master = LasMaster(where, job.stages, name=f"{job.kind} {job.number}")
    try:
        await master.run()
        outcome.broken = master.broken
    except (HadoopRpcError, OSError, RuntimeError, TimeoutError) as error:
        outcome.broken = f"{type(error).__name__}: {error}"
    finally:
        _fill(outcome, master, submitted_s)


def _fill(outcome: LasOutcome, master: LasMaster, submitted_s: float) -> None:
    ends = [task.ended_s for task in master.tasks if task.ended_s is not None]
    begins = [task.began_s for task in master.tasks if task.began_s is not None]
    if len(ends) == len(master.tasks):
        outcome.completion_s = max(ends) - submitted_s
    if begins:
        outcome.first_task_s = min(begins) - submitted_s
    outcome.counts = asdict(master.counts)
    outcome.tasks = [asdict(task) for task in master.tasks]


async def alone(where: LasSite, scale: LasScale, times: int, progress: Progress) -> dict[str, list[float]]:
    """Return the completion times, in seconds, of jobs of each class one after another on the idle node.

    Raises BenchError when one fails: there is nothing to compare with then.
    """
    by_class: dict[str, list[float]] = {}
    for row in TABLE:
        for _ in range(times if row is not TABLE[-1] else 1):
            job = job_of(row, scale)
            outcome = awaited(job)
            await live(where, job, time.time(), outcome)
            if outcome.completion_s is None:
                raise BenchError(f"a {row.name} job alone did not finish: {outcome.broken}", place="bench.las")
            by_class.setdefault(row.name, []).append(outcome.completion_s)
        progress(f"alone: {row.name} {by_class[row.name][-1]:.1f} s, by the table {row.alone_s * scale.time:.1f} s")
    return by_class


async def run_all(where: LasSite, jobs: Sequence[LasJob], limit_s: float, progress: Progress) -> LasRun:
    """Submit each job when it arrives; return when all are over, or after `limit_s` with the rest given up."""
    begin_s, used_s = time.time(), machine_cpu_s()
    outcomes = [awaited(job) for job in jobs]
    running = [
        asyncio.create_task(_arrive(where, job, begin_s, outcome)) for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    try:
        waiting = set(running)
        while waiting and time.time() - begin_s < limit_s:
            _, waiting = await asyncio.wait(waiting, timeout=_SHOWN_EVERY_S)
            arrived = sum(job.arrives_s < time.time() - begin_s for job in jobs)
            progress(f"{arrived} of {len(jobs)} jobs have arrived, {len(jobs) - len(waiting)} are over")
        wall_s = time.time() - begin_s
        busy_cores = (machine_cpu_s() - used_s) / wall_s
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_STOP_S)
    worked_s = sum(task["cpu_s"] for outcome in outcomes for task in outcome.tasks if task["ended_s"] is not None)
    return LasRun(outcomes, wall_s, busy_cores, worked_s / wall_s)


async def _arrive(where: LasSite, job: LasJob, begin_s: float, outcome: LasOutcome) -> None:
    await asyncio.sleep(max(0.0, begin_s + job.arrives_s - time.time()))
    await live(where, job, begin_s, outcome)


def measure(cluster: Cluster, mode: Mode, jobs: Sequence[LasJob], pace: Pace, progress: Progress) -> LasRun:
    """Run the workload on a running cluster."""

    async def work() -> LasRun:
        with opened(_pipe(cluster), mode.launcher) as umbilical:
            return await run_all(site(cluster, mode, umbilical, pace), jobs, pace.limit_s, progress)

    return asyncio.run(work())


def measure_alone(
    cluster: Cluster, mode: Mode, scale: LasScale, times: int, pace: Pace, progress: Progress
) -> dict[str, list[float]]:
    """Run one job of each class alone, `times` times (the longest once). Raises BenchError."""

    async def work() -> dict[str, list[float]]:
        with opened(_pipe(cluster), mode.launcher) as umbilical:
            return await alone(site(cluster, mode, umbilical, pace), scale, times, progress)

    return asyncio.run(work())


def _pipe(cluster: Cluster) -> Path:
    return cluster.spec.workdir / "tasks.pipe"
