"""Holds starts in the waiting queue, and releases them to the NodeManager while they fit, in the order of the queue."""

from __future__ import annotations

from quicksilver.common.messages import EventKind, Grant
from sidecar.node.container import Container
from sidecar.node.endings import Endings
from sidecar.node.events import Forced, Hold
from sidecar.node.launches import Launches
from sidecar.node.node_room import NodeRoom
from sidecar.node.phases import Phase
from sidecar.node.wait_reason import obstacle
from sidecar.node.waiting_queue import Waiting


class HeldStarts:
    """Holds and releases the starts of queueable containers."""

    def __init__(self, room: NodeRoom, endings: Endings, launches: Launches) -> None:
        self.state, self._room, self._endings, self._launches = room.state, room, endings, launches

    def hold(self, container: Container, grant: Grant, now_s: float) -> None:
        """Hold an announced start; shed it at once if it cannot wait here at all."""
        state, start = self.state, container.start
        state.out.append(Hold(container.id))
        refusal = self._refusal(container)
        if refusal:
            cause = "drain" if state.draining else "full"
            self._endings.finish(container, EventKind.SHED, refusal, now_s, cause)
            return
        container.until_s = min(start.expires_s - state.rules.expiry_margin_s, container.arrived_s + grant.max_hold_s)
        state.move(container, Phase.WAITING, now_s)
        state.queue.add(Waiting(container.view(), start.attempt_id, container.until_s, len(container.payload)))
        state.report(container, EventKind.HELD, "", now_s)

    def _refusal(self, container: Container) -> str | None:
        """Return why this start cannot be held at all; None or "" when it can."""
        state = self.state
        if state.draining:
            return state.draining
        capacity, need = state.rules.capacity, container.start.resources
        if need.memory_mb > capacity.memory_mb or (state.rules.count_vcores and need.vcores > capacity.vcores):
            size = f"{need.memory_mb} MB, {need.vcores:g} vcores"
            return f"it never fits: {size} wanted, the node has {capacity.memory_mb} MB, {capacity.vcores:g} vcores"
        return state.queue.refusal(len(container.payload))

    def release_fitting(self, now_s: float) -> None:
        """Release the held starts at the head of the queue while they fit; no other start overtakes them."""
        state = self.state
        while (head := state.queue.head(now_s)) is not None:
            if obstacle(self._room, head.view.resources, now_s):
                return
            self._launches.release(state.containers[head.view.id], now_s)

    def forced(self, event: Forced) -> None:
        """Release a held start at once, because only the NodeManager can answer a call about it."""
        container = self.state.containers.get(event.container_id)
        if container is not None and container.phase is Phase.WAITING:
            self._launches.release(container, event.now_s)
