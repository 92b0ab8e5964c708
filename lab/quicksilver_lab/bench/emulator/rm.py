"""A real, stock ResourceManager alone: no NodeManager, no HDFS; configured as a competitor wants it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from xml.etree.ElementTree import Element, SubElement, tostring

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.daemons import node_states
from quicksilver_lab.cluster.runtime.releases import DEFAULT
from quicksilver_lab.cluster.spec import ClusterSpec, RmAddresses

RM_OPTIONS: Final = ("-Xmx2g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
"""As a ResourceManager that lives long: both compilers, room for thousands of applications."""
FAIR: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
OPPORTUNISTIC: Final[Mapping[str, str]] = {
    "yarn.resourcemanager.opportunistic-container-allocation.enabled": "true",
}
"""For `RmOptions.yarn`: Hadoop's own opportunistic containers, all else as shipped."""
_AM_EXPIRY_S: Final = 3600.0
_NODE_EXPIRY_S: Final = 600.0
_POLL_S: Final = 0.2

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What each node has to give."""

    vcores: int = 4
    memory_mb: int = 4096


@dataclass(frozen=True, slots=True)
class RmOptions:
    """What differs from a stock ResourceManager; `yarn` and `capacity_scheduler` are laid over all else."""

    base_port: int = 19000
    hadoop: str = DEFAULT
    """Its version, one of `RELEASES`."""
    scheduler: Literal["capacity", "fair"] = "capacity"
    heartbeat_s: float = 1.0
    """Interval that the ResourceManager gives NodeManagers; 1 s is Hadoop's default."""
    behind_proxy: bool = False
    """The overlay: the scheduler service listens on `moved_scheduler`, `scheduler` is left to the proxy."""
    own_grants: bool = False
    """With `behind_proxy`: it takes containers that the proxy granted itself."""
    yarn: Mapping[str, str] = field(default_factory=dict)
    capacity_scheduler: Mapping[str, str] = field(default_factory=dict)
    fair_scheduler: Mapping[str, str] = field(default_factory=dict)
    """Elements of fair-scheduler.xml beside its queues."""
    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 100})
    """Leaf queues below root and their capacity in percent; under the Fair Scheduler their weight."""
    min_allocation_mb: int = 256
    calculator: Literal["default", "dominant"] = "default"
    """The Capacity Scheduler considers memory alone as Hadoop ships it: a node's memory is to hold as many containers
    as it has vcores."""
    java: tuple[str, ...] = RM_OPTIONS


@dataclass(frozen=True, slots=True)
class Running:
    """A ResourceManager that is up. `cluster` is what quicksilver_lab.cluster.local_daemons.LocalDaemons wants."""

    cluster: Cluster
    pid: int

    @property
    def addresses(self) -> RmAddresses:
        """Where it is found: client, scheduler, moved_scheduler, tracker, web."""
        return self.cluster.spec.resource_managers[0]

    @property
    def log(self) -> Path:
        """Its log."""
        return self.cluster.log(self.addresses.daemon)


def spec(workdir: Path, shape: NodeShape, options: RmOptions) -> ClusterSpec:
    """Return a cluster of one ResourceManager, which admits thousands of applications."""
    yarn = {
        "yarn.am.liveness-monitor.expiry-interval-ms": _ms(_AM_EXPIRY_S),
        "yarn.nm.liveness-monitor.expiry-interval-ms": _ms(_NODE_EXPIRY_S),
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": _ms(options.heartbeat_s),
        "yarn.log-aggregation-enable": "false",
    }
    if options.scheduler == "fair":
        yarn["yarn.resourcemanager.scheduler.class"] = FAIR
        yarn["yarn.scheduler.fair.user-as-default-queue"] = "false"
        yarn["yarn.scheduler.fair.allocation.file"] = str(_allocation_file(workdir))
    capacity = {
        "yarn.scheduler.capacity.maximum-applications": "20000",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    }
    return ClusterSpec(
        workdir=workdir,
        base_port=options.base_port,
        hadoop=options.hadoop,
        rm_only=True,
        overlay=options.behind_proxy,
        own_grants=options.own_grants,
        node_vcores=shape.vcores,
        node_memory_mb=shape.memory_mb,
        min_allocation_mb=options.min_allocation_mb,
        queues=dict(options.queues),
        resource_calculator=options.calculator,
        extra_site={
            "yarn": yarn | dict(options.yarn),
            "capacity-scheduler": capacity | dict(options.capacity_scheduler),
        },
        rm_java_opts=options.java,
    )


def allocations(options: RmOptions) -> str:
    """Return the Fair Scheduler's queues and other elements as its allocation file."""
    root = Element("allocations")
    for name, weight in options.queues.items():
        SubElement(SubElement(root, "queue", name=name), "weight").text = str(weight)
    for name, value in options.fair_scheduler.items():
        SubElement(root, name).text = value
    return tostring(root, encoding="unicode")


def _write_allocations(workdir: Path, options: RmOptions) -> None:
    workdir.mkdir(parents=True, exist_ok=True)
    _allocation_file(workdir).write_text(allocations(options))


def _allocation_file(workdir: Path) -> Path:
    """Return the path of fair-scheduler.xml; the Fair Scheduler wants it to be absolute."""
    return workdir.absolute() / "fair-scheduler.xml"


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


@asynccontextmanager
async def resource_manager(
    workdir: Path, shape: NodeShape, options: RmOptions, progress: Progress = lambda _: None
) -> AsyncIterator[Running]:
    """Run a ResourceManager for the time of an async with block; it is gone afterwards, also when SIGTERM comes.

    Raises ClusterError.
    """
    cluster = Cluster(spec(workdir, shape, options))
    if options.scheduler == "fair":
        await asyncio.to_thread(_write_allocations, workdir, options)
    with cancelled_by_sigterm():
        starting = asyncio.create_task(asyncio.to_thread(cluster.start, progress))
        try:
            await asyncio.shield(starting)
            pid = next(daemon.pid for daemon in (await asyncio.to_thread(cluster.status)).daemons)
            yield Running(cluster, pid)
        finally:
            await asyncio.wait([starting])  # cancelled while it started: what comes up later would be nobody's
            if starting.exception() is None:  # else nothing of it is left, or it was there before
                await asyncio.to_thread(cluster.stop)


@contextmanager
def cancelled_by_sigterm() -> Iterator[None]:
    """Have SIGTERM cancel the task that enters, so that it clears up; only the main thread hears of signals."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


async def until_running(rm: Running, count: int) -> None:
    """Return when the ResourceManager plans with `count` nodes: it answers a registration before it does."""
    while True:
        states = await asyncio.to_thread(node_states, rm.cluster.spec)
        if sum(state == "RUNNING" for state in states.values()) >= count:
            return
        await asyncio.sleep(_POLL_S)
