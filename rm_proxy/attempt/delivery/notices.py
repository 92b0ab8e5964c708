"""What an application master is to hear with its next answer: which containers will be taken, which nodes are emptied.

A strict contract names containers that will be killed; a negotiable one names resources that are wanted back, and the
containers that will be killed if the application does not return as much.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.domain import ids
from rm_proxy.domain.resources import set_resources


@dataclass(frozen=True, slots=True)
class NodeNotice:
    """A node whose state changes for an application."""

    report: y.NodeReportProto
    until_s: float | None = None
    """When its containers are killed, Unix seconds; None where nothing is killed."""


@dataclass(slots=True)
class Notices:
    """The news for one application attempt."""

    containers: HeldContainers
    """Those of the attempt."""
    strict: dict[str, None] = field(default_factory=dict)
    """Ids of containers."""
    negotiable: dict[str, None] = field(default_factory=dict)
    nodes: dict[str, NodeNotice] = field(default_factory=dict)
    """By node id."""

    def write(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        """Add the news to an answer; return whether it changed.

        Containers that the application does not hold any more are left out, and nodes that the ResourceManager itself
        reports in another state than RUNNING.
        """
        strict, negotiable = _alive(self.strict, self.containers), _alive(self.negotiable, self.containers)
        for live in strict:
            answer.preempt.strictContract.container.add().id.CopyFrom(live.proto)
        for live in negotiable:
            answer.preempt.contract.container.add().id.CopyFrom(live.proto)
        for (priority, size), count in _sizes(negotiable).items():
            row = answer.preempt.contract.resource.add().resource
            row.resource_name, row.num_containers, row.priority.priority = "*", count, priority
            set_resources(row.capability, size)
        gone = {ids.node_id_text(each.nodeId) for each in answer.updated_nodes if each.node_state != y.NS_RUNNING}
        nodes = [notice for node_id, notice in self.nodes.items() if node_id not in gone]
        for notice in nodes:
            report = answer.updated_nodes.add()
            report.CopyFrom(notice.report)
            if notice.until_s is not None:
                report.decommissioning_timeout = max(0, round(notice.until_s - now_s))
        return bool(strict or negotiable or nodes)


def _alive(container_ids: dict[str, None], containers: HeldContainers) -> list[HeldContainer]:
    """Return the containers that the application still holds, and that are not over."""
    known = [containers.get(container_id) for container_id in container_ids]
    return [live for live in known if live is not None and not (live.released or live.is_over or live.killed)]


def _sizes(members: list[HeldContainer]) -> dict[tuple[int, Resources], int]:
    """Return how many there are of each priority and size."""
    counts: dict[tuple[int, Resources], int] = {}
    for live in members:
        key = live.priority, live.resources
        counts[key] = counts.get(key, 0) + 1
    return counts
