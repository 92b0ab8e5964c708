"""Drains the node while its NodeManager queues containers instead of launching them.

A NodeManager (3.4) counts the room of launches that it lost in its own restart, and has less than the sidecar believes:
its ContainerScheduler keeps what it cannot launch in a queue, where it may stand for ever. Its REST lists such a
container as SCHEDULED; a status by RPC does not distinguish that from NEW and LOCALIZING. It is stopped at once there.
"""

from __future__ import annotations

import math
from typing import Final

from sidecar.node.endings import Endings
from sidecar.node.events import Drain, Localized, NodeManagerQueues
from sidecar.node.node_state import NodeState
from sidecar.node.proxy_orders import ProxyOrders

BY: Final = "nodemanager"
QUEUES: Final = "its NodeManager queues containers instead of launching them"
QUIET_S: Final = 60.0
"""Time after the last sign of that queue until the node holds queueable containers again."""


class NmQueue:
    """Drains the node while the NodeManager queues, and kills the queueable containers in its queue."""

    def __init__(self, state: NodeState, endings: Endings, orders: ProxyOrders) -> None:
        self.state, self._endings, self._orders = state, endings, orders
        self._until_s = math.inf

    def queues(self, event: NodeManagerQueues) -> None:
        """Drain the node, so that the proxy sends nothing, then kill the queueable containers that were named."""
        now_s = event.now_s
        self._until_s = now_s + QUIET_S
        if BY not in self.state.drains:
            self._orders.drain(Drain(True, QUEUES, now_s, BY))
        for container_id in event.container_ids:
            container = self.state.containers.get(container_id)
            if container is not None and self._endings.killable(container):
                container.localized = True
                self._endings.kill(container, QUEUES, "queued", now_s)

    def localized(self, event: Localized) -> None:
        """Note that the stop of a container has no localization to wait for."""
        container = self.state.containers.get(event.container_id)
        if container is not None:
            container.localized = True

    def deadline_s(self) -> float | None:
        """Return when the node holds containers again; None while it does."""
        return self._until_s if self._until_s < math.inf else None

    def tick(self, now_s: float) -> None:
        """Hold containers again when the NodeManager has not queued for a while."""
        if self._until_s <= now_s:
            self._until_s = math.inf
            self._orders.drain(Drain(False, "", now_s, BY))
