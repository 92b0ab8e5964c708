"""What the ResourceManager's REST says of nodes and queues, for the proxy."""

from __future__ import annotations

from collections.abc import Iterable

from policies.model import Resources
from quicksilver.simulator.world.yarn import Yarn
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.yarn.models import YarnNode, YarnQueue


class Rest:
    """Reports changes to a coordinator; with `eager` everything, each time."""

    def __init__(self, yarn: Yarn, coordinator: Coordinator, eager: bool) -> None:
        """Begin with nothing reported."""
        self._yarn, self._coordinator, self._eager = yarn, coordinator, eager
        self._reported: dict[str, YarnNode] = {}
        self._queues: list[YarnQueue] = []

    def report(self, queues: Iterable[str], now_s: float) -> None:
        """Report the nodes, and the queues with these paths."""
        records, news = self._reported, self._eager
        for n in self._yarn.nodes.values():
            known = records.get(n.id)
            if known is None or known.used is not n.used:
                news = True
                records[n.id] = YarnNode(n.id, n.host, n.rack, "RUNNING", "", n.capacity, n.used, f"{n.host}:8042")
        if news:
            self._coordinator.yarn_nodes(records.values(), now_s)
        used, total, nothing = self._yarn.used, self._yarn.scheduler.total, Resources()
        queues_now = [
            YarnQueue(path, True, "RUNNING", total, used.get(path, nothing), frozenset(), "") for path in queues
        ]
        if queues_now != self._queues or self._eager:
            self._queues = queues_now
            self._coordinator.inventory.update_queues(queues_now)
