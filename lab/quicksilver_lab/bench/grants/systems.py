"""What is compared: Hadoop's own opportunistic containers, and three ways in which the proxy grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quicksilver_lab.bench.emulator.masters.asks import MAP_PRIORITY, OPPORTUNISTIC_MAP_PRIORITY
from quicksilver_lab.bench.emulator.nodes.nm_events import NmSize
from quicksilver_lab.bench.emulator.nodes.nodes import NodeSettings
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay
from quicksilver_lab.bench.emulator.rm import NodeShape, RmOptions
from quicksilver_lab.bench.load.masters import ASK_MB
from quicksilver_lab.bench.mercury.competitors import BY_NAME, Competitor

SYSTEMS: Final[Mapping[str, Competitor]] = {
    "stock": BY_NAME["opportunistic"],
    "quicksilver": BY_NAME["quicksilver"],
    "own_grants": BY_NAME["quicksilver_own_grants"],
    "own_grants_ahead": BY_NAME["quicksilver_own_grants_ahead"],
}
"""By the name in results."""
OWN: Final = ("own_grants", "own_grants_ahead")
"""Those whose containers the proxy makes itself."""
_PATIENT: Final = {"ipc.client.idlethreshold": "100000"}
"""With more than 4,000 connections, the default, a ResourceManager closes some that were idle for 20 s."""
_NODE_PORT: Final = 300
"""Of the nodes, above the first port."""


def priority(system: Competitor) -> int:
    """Return the priority of the probes' asks: that of a MapReduce map, opportunistic where quicksilver is not."""
    return MAP_PRIORITY if system.quicksilver else OPPORTUNISTIC_MAP_PRIORITY


def node_shape(slots: int) -> NodeShape:
    """Return a node with so many slots, each of a vcore and the memory of one ask."""
    return NodeShape(slots, slots * ASK_MB)


def rm_options(system: Competitor, base_port: int, java: tuple[str, ...]) -> RmOptions:
    """Return the settings of a system's ResourceManager. java: options of its JVM."""
    return RmOptions(
        base_port=base_port,
        behind_proxy=system.quicksilver,
        own_grants=bool(system.own_grants),
        yarn={**_PATIENT, **system.yarn_site},
        capacity_scheduler=system.scheduler_site,
        java=java,
    )


def node_settings(system: Competitor, slots: int, base_port: int) -> NodeSettings:
    """Return the nodes of a system."""
    shape = node_shape(slots)
    return NodeSettings(
        vcores=shape.vcores,
        memory_mb=shape.memory_mb,
        relay=ReportRelay(NmSize(system.extra * ASK_MB, system.extra), system.quicksilver),
        max_queue_length=system.nm_queue_length,
        port=base_port + _NODE_PORT,
    )
