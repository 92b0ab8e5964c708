"""One run: a fresh ResourceManager, emulated servers, applications, and the proxy where quicksilver takes part.

Memory alone is partitioned, as in the paper: the Capacity Scheduler's DefaultResourceCalculator gives each container
one vcore whatever it asks for, and a server of 128 GB has room for 16 of them, for half of its vcores. No memory is
hidden from the ResourceManager, so that the servers hold as much under each system.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quicksilver_lab.bench import procstat
from quicksilver_lab.bench.emulator.masters.application import ApplicationSpec, MasterRecord
from quicksilver_lab.bench.emulator.masters.application_masters import ApplicationMasters, ApplicationMastersSettings
from quicksilver_lab.bench.emulator.nodes.nodes import NodeSettings
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay
from quicksilver_lab.bench.emulator.rm import RmOptions
from quicksilver_lab.bench.emulator.run import EmulatedCluster, emulated_cluster
from quicksilver_lab.bench.zoe.systems import ZoeSystem
from quicksilver_lab.bench.zoe.workload import SERVERS, SHAPE

Progress = Callable[[str], None]

_NODE_PORT: Final = 300
"""Of the nodes, above the first port."""
_LEAST_MB: Final = 1024


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How it is run; times in seconds."""

    base_port: int = 24000
    heartbeat_s: float = 1.0
    """Of masters and nodes."""
    drain_s: float = 1200.0
    """From the last arrival on, all applications must end within it."""


@dataclass(slots=True)
class LiveResult:
    """One run of one system. Moments in seconds from the first application's submission on."""

    system: str
    records: list[MasterRecord]
    counts: dict[str, int] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    """CPU of ResourceManager, emulator and proxy."""


async def run(
    system: ZoeSystem,
    specs: Sequence[ApplicationSpec],
    settings: LiveSettings,
    workdir: Path,
    progress: Progress = lambda _: None,
) -> LiveResult:
    """Run applications and return what became of them; nothing is left running.

    Raises QuicksilverError, ClusterError, OSError, RuntimeError of a node that ended before its time.
    """
    options = RmOptions(
        base_port=settings.base_port,
        heartbeat_s=settings.heartbeat_s,
        behind_proxy=system.quicksilver,
        capacity_scheduler=system.scheduler_site,
        min_allocation_mb=_LEAST_MB,
    )
    async with emulated_cluster(
        workdir, SERVERS, SHAPE, options, _nodes(system, settings), system.policies, {}, progress
    ) as cluster:
        return await _measured(system, specs, settings, cluster)


def _nodes(system: ZoeSystem, settings: LiveSettings) -> NodeSettings:
    return NodeSettings(
        vcores=SHAPE.vcores,
        memory_mb=SHAPE.memory_mb,
        relay=ReportRelay(mark_guaranteed=system.quicksilver),
        max_queue_length=system.nm_queue_length,
        port=settings.base_port + _NODE_PORT,
    )


async def _measured(
    system: ZoeSystem, specs: Sequence[ApplicationSpec], settings: LiveSettings, cluster: EmulatedCluster
) -> LiveResult:
    rm, nodes = cluster.rm, cluster.nodes
    by_id = {node.id: node for node in nodes.nodes}
    origin_s = time.monotonic()
    masters = ApplicationMasters(
        rm.addresses.client,
        rm.addresses.scheduler,
        lambda node, container_id: by_id[node].served_s(container_id),
        ApplicationMastersSettings(heartbeat_s=settings.heartbeat_s),
        clock=lambda: time.monotonic() - origin_s,
    )
    nodes.umbilical = masters.umbilical
    pids = cluster.pids
    began = {name: procstat.cpu_s(pid) for name, pid in pids.items()}
    records = await masters.run(specs, stop_after_s=specs[-1].arrives_s + settings.drain_s)
    cpu_s = {name: round(procstat.cpu_s(pid) - began[name], 2) for name, pid in pids.items()}
    nodes.check()
    return LiveResult(system.name, records, dict(masters.counts) | cluster.counts(), cpu_s)
