"""The nodes as the `probe` policies see them: when their slots come free behind the probes that wait there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from policies.common.remaining_time import left_s
from policies.model import ContainerView, JobClass, Kind, NodeView, Resources
from policies.probes import ProbedNode
from quicksilver.common.messages import ContainerReport, ContainerState, Report

_BUSY: Final = (ContainerState.RUNNING, ContainerState.SHRUNK, ContainerState.STARTING, ContainerState.WAITING)


class ReportingNode(Protocol):
    """A node of the coordinator."""

    @property
    def view(self) -> NodeView:
        """What policies see of it."""

    @property
    def report(self) -> Report | None:
        """The last report of its sidecar."""

    @property
    def reported_s(self) -> float:
        """When that came; Unix seconds."""


class ProbedCluster:
    """The coordinator's nodes, with what runs there.

    class_of: returns the class of an application.
    """

    def __init__(self, nodes: Mapping[str, ReportingNode], class_of: Callable[[str], JobClass]) -> None:
        self.nodes, self._class_of = nodes, class_of

    def usable(self, node_id: str) -> NodeView | None:
        """Return a node on which containers may start, None for any other."""
        node = self.nodes.get(node_id)
        return node.view if node is not None and node.view.usable else None

    def running(self, node_id: str) -> tuple[ContainerView, ...]:
        """Return what runs or waits at a node, for a `steal` policy."""
        return tuple(
            ContainerView(
                id=c.container_id,
                app=c.app_id,
                kind=Kind.GUARANTEED if c.kind == Kind.GUARANTEED else Kind.QUEUEABLE,
                resources=Resources(c.memory_mb, c.vcores),
                started_s=self.nodes[node_id].reported_s - c.since_s if c.state is not ContainerState.WAITING else None,
                expected_s=c.expected_s,
                job_class=self._class_of(c.app_id),
            )
            for c in self._at(node_id)
        )

    def all_long(self, node_id: str) -> bool:
        """Return whether long tasks hold all cores of a node."""
        slots = max(1, int(self.nodes[node_id].view.capacity.vcores))
        return sum(self._class_of(c.app_id) is JobClass.LONG for c in self._at(node_id)) >= slots

    def probed(self, node_id: str, waits_s: float, long_waits: bool, in_partition: bool, now_s: float) -> ProbedNode:
        """Return a node as `probe` policies see it.

        waits_s: expected work of the tasks whose probes wait there; long_waits: whether a long one is among them.
        """
        node = self.nodes[node_id]
        view = node.view
        slots = max(1, int(view.capacity.vcores))
        age_s = now_s - node.reported_s
        at = self._at(node_id)
        frees = sorted((_rest_s(c, age_s) for c in at), reverse=True)[:slots]
        long_ones = sum(self._class_of(c.app_id) is JobClass.LONG for c in at)
        free = min(slots - len(frees), max(0, int(view.capacity.vcores - view.used_g.vcores - view.used_q.vcores)))
        behind_s = waits_s / slots
        slots_s = (*[behind_s] * free, *(behind_s + rest_s for rest_s in reversed(frees)))
        return ProbedNode(view, slots_s or (behind_s,), long_waits or long_ones >= slots, in_partition)

    def _at(self, node_id: str) -> list[ContainerReport]:
        report = self.nodes[node_id].report
        return [c for c in report.containers if not c.am and c.state in _BUSY] if report is not None else []


def _rest_s(container: ContainerReport, age_s: float) -> float:
    """Return how much longer a container is expected to run; one that runs on as long as it is late by now."""
    if container.state is ContainerState.WAITING:
        return container.expected_s
    ran_s = container.since_s + age_s
    return max(left_s(container.expected_s, 0.0, ran_s), ran_s - container.expected_s)
