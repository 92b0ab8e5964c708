"""One run on the emulated cluster: a fresh ResourceManager, nodes, masters, and the proxy where quicksilver takes part.

The ResourceManager is restarted for each run, so that no competitor finds the caches, the compiled code or the ended
applications of another one; what a cold JVM costs falls into the warm-up, which no figure counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from quicksilver_lab.bench import procstat
from quicksilver_lab.bench.emulator.emulated_quicksilver import EmulatedQuicksilver, quicksilver
from quicksilver_lab.bench.emulator.masters.masters import Masters, MastersSettings
from quicksilver_lab.bench.emulator.model import JobRecord, JobSpec, RunResult, TaskRecord
from quicksilver_lab.bench.emulator.nodes.nodes import EmulatedNodes, NodeSettings
from quicksilver_lab.bench.emulator.rm import NodeShape, RmOptions, Running, resource_manager, until_running

Progress = Callable[[str], None]

_SETTLE_S: Final = 1.5
"""From the last registration to the first job: every node has reported to the ResourceManager that it is idle."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What is run. Times in seconds of the run's clock, which begins with the masters."""

    competitor: str
    workload: str
    seed: int
    count: int
    """Of nodes."""
    shape: NodeShape
    rm: RmOptions
    masters: MastersSettings
    nodes: NodeSettings
    concurrent: int | None = None
    """Jobs under way at a time; None: each comes when it arrives."""
    warm_s: float = 15.0
    window_s: float = 40.0
    """What ends within it counts; no job is submitted after it."""
    drain_s: float = 60.0
    """Jobs that are not over within this time after the window count as lost, seconds."""
    policies: Mapping[str, Any] | None = None
    """The section of quicksilver.yaml; None without quicksilver."""
    proxy: Mapping[str, Any] = field(default_factory=dict)
    """More of that section of quicksilver.yaml."""

    @property
    def slots(self) -> int:
        """Of all nodes."""
        return self.count * self.shape.vcores


@dataclass(slots=True)
class _Used:
    """What the processes used up to a moment, by name."""

    pids: Mapping[str, int]
    began: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    rss_mb: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Handle the begin of the window."""
        self.began = {name: procstat.cpu_s(pid) for name, pid in self.pids.items()}

    def end(self) -> None:
        """Handle the end of the window."""
        self.cpu_s = {name: round(procstat.cpu_s(pid) - self.began[name], 2) for name, pid in self.pids.items()}
        self.rss_mb = {name: procstat.rss_mb(pid) for name, pid in self.pids.items()}


@dataclass(frozen=True, slots=True)
class EmulatedCluster:
    """A real ResourceManager with emulated nodes, and quicksilver where it takes part."""

    rm: Running
    nodes: EmulatedNodes
    through: EmulatedQuicksilver | None

    @property
    def pids(self) -> dict[str, int]:
        """The processes whose use is measured, by name. Raises LocalDaemonsError when the proxy ended."""
        return {"rm": self.rm.pid, "emulator": os.getpid()} | (
            {"proxy": self.through.proxy_pid} if self.through else {}
        )

    def counts(self) -> dict[str, int]:
        """Return why nodes refused starts, and what the sites of quicksilver count."""
        refused = {f"refused: {why}": number for why, number in self.nodes.tally.refused.items()}
        return refused | (self.through.counts() if self.through else {})


@asynccontextmanager
async def emulated_cluster(
    workdir: Path,
    count: int,
    shape: NodeShape,
    options: RmOptions,
    settings: NodeSettings,
    policies: Mapping[str, Any] | None,
    proxy: Mapping[str, Any],
    progress: Progress,
) -> AsyncIterator[EmulatedCluster]:
    """Start `count` nodes and all that they need, for the time of a with block; nothing is left running.

    policies, proxy: sections of quicksilver.yaml; without policies quicksilver takes no part. Raises QuicksilverError,
    ClusterError, OSError, RuntimeError of a node that ended before its time.
    """
    async with resource_manager(workdir, shape, options, progress) as rm, AsyncExitStack() as stack:
        nodes, through = EmulatedNodes(settings), None
        if policies is not None:
            through = await stack.enter_async_context(quicksilver(rm.cluster, policies, proxy, shape))
            nodes.queued_elsewhere = through.waiting
        await nodes.start(count, rm.addresses.tracker, through.accept if through else None)
        stack.push_async_callback(nodes.stop)
        await until_running(rm, count)
        if through is not None:
            await through.start(count)
        await asyncio.sleep(_SETTLE_S)
        yield EmulatedCluster(rm, nodes, through)


async def run(spec: RunSpec, jobs: Iterable[JobSpec], workdir: Path, progress: Progress = lambda _: None) -> RunResult:
    """Run jobs, which may be endless, and return what became of them; nothing is left running.

    Raises QuicksilverError, ClusterError, OSError, RuntimeError of a node that ended before its time.
    """
    async with emulated_cluster(
        workdir, spec.count, spec.shape, spec.rm, spec.nodes, spec.policies, spec.proxy, progress
    ) as cluster:
        return await _measured(spec, cluster, jobs)


async def _measured(spec: RunSpec, cluster: EmulatedCluster, jobs: Iterable[JobSpec]) -> RunResult:
    rm, nodes = cluster.rm, cluster.nodes
    origin_s = time.monotonic()

    def clock() -> float:
        return time.monotonic() - origin_s

    masters = Masters(rm.addresses.client, rm.addresses.scheduler, spec.masters, clock=clock)
    nodes.umbilical = masters.umbilical
    used = _Used(cluster.pids)
    watching = asyncio.create_task(_window(spec, used))
    end_s = spec.warm_s + spec.window_s
    try:
        records = await masters.run(
            jobs, concurrent=spec.concurrent, submit_for_s=end_s, stop_after_s=end_s + spec.drain_s
        )
        await watching
    finally:
        watching.cancel()
    nodes.check()
    return _result(spec, cluster, masters, records, used, origin_s)


async def _window(spec: RunSpec, used: _Used) -> None:
    await asyncio.sleep(spec.warm_s)
    used.begin()
    await asyncio.sleep(spec.window_s)
    used.end()


def _result(
    spec: RunSpec,
    cluster: EmulatedCluster,
    masters: Masters,
    records: list[JobRecord],
    used: _Used,
    origin_s: float,
) -> RunResult:
    nodes = cluster.nodes
    counts = nodes.counts()
    unfinished = sum(_open(task) for job in records for task in job.tasks)
    samples = [replace(sample, at_s=sample.at_s - origin_s) for sample in nodes.samples]
    return RunResult(
        spec.competitor,
        spec.workload,
        spec.seed,
        spec.count,
        spec.slots,
        spec.warm_s,
        spec.window_s,
        records,
        [sample for sample in samples if sample.at_s >= 0],
        kills=counts.killed_for_room + counts.killed_otherwise,
        work_lost_s=round(counts.work_lost_s, 3),
        cpu_s=used.cpu_s,
        rss_mb=used.rss_mb,
        counts=dict(masters.counts)
        | {"lost": masters.counts["lost"] + unfinished, "unfinished": unfinished}
        | {"nm_shed": counts.shed, "nm_queue_full": counts.queue_full, "nm_started": counts.started}
        | nodes.tally.counts()
        | cluster.counts(),
    )


def _open(task: TaskRecord) -> bool:
    return task.ended_s is None
