"""What runs, waits, is shrunk and lies idle in the cluster at one time, counted node by node."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Final

from policies.model import Kind
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes.nodes import Node

MAX_SHRINKS: Final = 20_000
"""Spans that are remembered, of all nodes."""
_ROUNDING_S: Final = 2.0
"""Two reports of one span differ by less than this in when it began."""


@dataclass(slots=True)
class Sample:
    """Sums over nodes. Cores are vcores, memory MB; application masters count as guaranteed."""

    nodes: int = 0
    nodes_usable: int = 0
    cores: float = 0.0
    """Of nodes with a sidecar."""
    g: float = 0.0
    """Cores of guaranteed containers that run."""
    q: float = 0.0
    """Cores of queueable containers that run at full speed."""
    shrunk: float = 0.0
    """Cores that shrunk containers had."""
    waiting: float = 0.0
    """Cores of queueable containers that wait at nodes."""
    idle: float = 0.0
    """Cores in which nothing runs."""
    count_g: int = 0
    """Guaranteed containers that run, application masters too."""
    count_q: int = 0
    """Queueable ones that run, shrunk ones too."""
    count_shrunk: int = 0
    count_waiting: int = 0
    memory_mb: float = 0.0
    g_mb: float = 0.0
    q_mb: float = 0.0
    """Used by containers that run or are shrunk."""
    pending_g: int = 0
    pending_q: int = 0
    """Containers asked for and not delivered yet."""
    delay_q_p50_s: float = math.nan
    """From ask to delivery lately, with the waits so far of those that wait; NaN for none."""
    delay_q_p95_s: float = math.nan
    delay_g_p50_s: float = math.nan
    delay_g_p95_s: float = math.nan

    def add(self, node: Node) -> None:
        """Count a node."""
        self.nodes += 1
        self.nodes_usable += node.view.usable
        report = node.report
        if report is None:
            return
        self.cores += report.vcores
        self.memory_mb += report.memory_mb
        self.g_mb += report.used_g_mb
        self.q_mb += report.used_q_mb
        running = 0.0
        for container in report.containers:
            running += self._container(container)
        self.idle += max(0.0, report.vcores - running)

    def _container(self, container: ContainerReport) -> float:
        """Count a container, and return the cores in which it runs."""
        cores, state = container.vcores, container.state
        if state is ContainerState.WAITING:
            self.waiting += cores
            self.count_waiting += 1
            return 0.0
        guaranteed = container.kind == Kind.GUARANTEED.value
        self.count_g += guaranteed
        self.count_q += not guaranteed
        if state is ContainerState.SHRUNK:
            self.shrunk += cores
            self.count_shrunk += 1
            return 0.0
        if guaranteed:
            self.g += cores
        else:
            self.q += cores
        return cores

    def add_pending(self, coordinator: Coordinator) -> None:
        """Count what applications wait for."""
        for attempt in coordinator.attempts.values():
            if not attempt.finished:
                for entry in attempt.entries:
                    self.pending_g += entry.g_share
                    self.pending_q += entry.q_wanted + len(entry.pending)

    def add_delays(self, percentiles: Mapping[str, float]) -> None:
        """Set the percentiles of `DelayWindow`."""
        for name, value_s in percentiles.items():
            setattr(self, name, value_s)

    def values(self) -> dict[str, float]:
        """Return all sums by name."""
        return {name: getattr(self, name) for name in NAMES}


NAMES: Final = tuple(column.name for column in fields(Sample))


@dataclass(slots=True)
class Shrink:
    """A time in which a container was shrunk."""

    container_id: str
    from_s: float
    to_s: float
    """When it was last seen so."""


class Shrinks:
    """Spans of shrunk containers, as reports show them; one that is shorter than a sample's period may be missed."""

    def __init__(self, limit: int = MAX_SHRINKS) -> None:
        self._open: dict[str, Shrink] = {}
        self._seen: dict[str, Shrink] = {}
        self._spans: deque[tuple[str, Shrink]] = deque(maxlen=limit)

    def add(self, node: Node) -> None:
        """Note the containers of a node that are shrunk now."""
        if node.report is None:
            return
        for container in node.report.containers:
            if container.state is ContainerState.SHRUNK:
                self._note(node.id, container, node.reported_s)

    def end_round(self) -> None:
        """Forget, as open, what was not shrunk any more since the last call."""
        self._open, self._seen = self._seen, {}

    def _note(self, node_id: str, container: ContainerReport, now_s: float) -> None:
        begun_s = now_s - container.since_s
        span = self._open.get(container.container_id)
        if span is None or abs(span.from_s - begun_s) > _ROUNDING_S:
            span = Shrink(container.container_id, begun_s, now_s)
            self._spans.append((node_id, span))
        span.to_s = now_s
        self._seen[container.container_id] = span

    def of_containers(self, container_ids: Collection[str]) -> list[Shrink]:
        """Return the spans of containers, the oldest first."""
        return [span for _, span in self._spans if span.container_id in container_ids]

    def of(self, node_id: str, since_s: float) -> list[Shrink]:
        """Return the spans at a node that ended after a time, the oldest first."""
        return [span for node, span in self._spans if node == node_id and span.to_s >= since_s]
