"""Up to where each worker has settled the events of a node: its sidecar may forget those that all have."""

from __future__ import annotations

from quicksilver.common.messages import Report
from rm_proxy.coordinator.workers.spread import Spread


class NodeAcks:
    """A machine: what other workers have settled in, what a sidecar may forget out."""

    def __init__(self, spread: Spread) -> None:
        self._spread = spread
        self._settled: dict[int, dict[str, tuple[str, int]]] = {}
        """By worker and node: boot of the sidecar, and the number up to which its events are settled."""

    def settled(self, worker: int, node_id: str, boot: str, events_to: int) -> None:
        """Note up to which number a worker has settled the events of a node."""
        self._settled.setdefault(worker, {})[node_id] = boot, events_to

    def up_to(self, node_id: str, report: Report, events_to: int) -> int:
        """Return up to which number all workers have; events_to: this one."""
        own = self._spread.own
        for event in report.events:
            worker = self._spread.of_container(event.container_id)
            if worker == own or event.seq > events_to:
                continue
            boot, settled = self._settled.get(worker, {}).get(node_id, ("", -1))
            if boot != report.boot or event.seq > settled:
                events_to = event.seq - 1
        return events_to

    def forget(self, worker: int) -> None:
        """Forget a worker: the one that replaces it begins with the events that are not settled."""
        self._settled.pop(worker, None)

    def forget_other_nodes(self, node_ids: set[str]) -> None:
        """Forget all nodes but these."""
        for nodes in self._settled.values():
            for node_id in nodes.keys() - node_ids:
                del nodes[node_id]
