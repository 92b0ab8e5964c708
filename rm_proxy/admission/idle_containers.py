"""Elastic containers that use next to no CPU: found by the CPU seconds that their nodes measure (Zoe, §8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quicksilver.common.messages import ContainerReport, ContainerState, Report


@dataclass(slots=True)
class _Use:
    """CPU time of a container at the begin of the stretch in which it was idle up to now."""

    attained_s: float
    since_s: float
    last_s: float
    idle_s: float = 0.0


class IdleContainers:
    """A machine: reports in, idle containers out."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, _Use]] = {}

    def report(self, report: Report, idle_ratio: float, now_s: float) -> None:
        """Handle a node's report. idle_ratio: cores over vcores below which a container is idle.

        A container that is shrunk, or whose CPU time is not measured, is never idle.
        """
        before = self._by_node.get(report.node_id, {})
        uses: dict[str, _Use] = {}
        for container in report.containers:
            if container.kind == "Q" and not container.am and container.state is ContainerState.RUNNING:
                use = _followed(before.get(container.container_id), container, idle_ratio, now_s)
                if use is not None:
                    uses[container.container_id] = use
        self._by_node[report.node_id] = uses

    def forget_node(self, node_id: str) -> None:
        """Forget the containers of a node."""
        self._by_node.pop(node_id, None)

    def clear(self) -> None:
        """Forget all."""
        self._by_node.clear()

    def idle(self) -> Iterator[tuple[str, str, float]]:
        """Yield node, container and how long it has been idle, in seconds, of those that are."""
        for node_id, uses in self._by_node.items():
            for container_id, use in uses.items():
                if use.idle_s > 0:
                    yield node_id, container_id, use.idle_s


def _followed(use: _Use | None, container: ContainerReport, idle_ratio: float, now_s: float) -> _Use | None:
    """Return the use of a container after one more report; None where it is not measured."""
    attained_s = container.attained_s
    if attained_s is None:
        return None
    if use is None:
        return _Use(attained_s, now_s, now_s)
    span_s = now_s - use.since_s
    busy = attained_s - use.attained_s > idle_ratio * max(1.0, container.vcores) * max(span_s, 1.0)
    if busy:
        return _Use(attained_s, now_s, now_s)
    use.last_s, use.idle_s = now_s, span_s
    return use
