"""Holds starts in the waiting queue, and releases them to the NodeManager while they fit, in the order of the queue."""

from __future__ import annotations

from typing import Final

from policies.model import Gap
from quicksilver.common.messages import EventKind, Grant
from sidecar.node.container import Container
from sidecar.node.endings import Endings
from sidecar.node.events import Forced, Hold
from sidecar.node.forecast import Forecast
from sidecar.node.node_policies import NodePolicies
from sidecar.node.node_room import NodeRoom
from sidecar.node.phases import Phase
from sidecar.node.queue.waiting_queue import WaitingStart
from sidecar.node.starts.launches import Launches
from sidecar.node.wait_reason import obstacle

FILL_LOOKED_AT: Final = 100
"""How many of a queue are looked at for a gap: its first ones, each at the cost of a forecast if it fits."""
_NO_CORE: Final = "no core came free when it should have: a container of the node runs longer than estimated"


class HeldStarts:
    """Holds and releases the starts of queueable containers."""

    def __init__(self, room: NodeRoom, endings: Endings, launches: Launches, policies: NodePolicies) -> None:
        self.state, self._room, self._endings, self._launches = room.state, room, endings, launches
        self._policies = policies
        self._patient: dict[str, float] = {}
        """Held starts that wait for a core of their own, each with the time until which they do."""
        self._unknown: dict[str, bool] = {}
        """Held starts of containers that the ResourceManager may not know, and whether a call waits for each."""

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
        if grant.core_wait_s > 0:
            self._patient[container.id] = now_s + grant.core_wait_s
        if container.unknown:
            self._unknown[container.id] = False
        state.queue.add(WaitingStart(container.view(), start.attempt_id, container.until_s, len(container.payload)))
        state.report(container, EventKind.HELD, "", now_s)

    def known(self, container: Container, now_s: float) -> None:
        """Let a held start go that waited until the ResourceManager knew its container."""
        assert container.grant is not None
        container.grant = container.grant.model_copy(update={"known": True})
        self.state.mark(container.id)
        if self._unknown.pop(container.id, False):
            self._launches.release(container, now_s)

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
        """Release the held starts at the head of the queue while they fit; shed those that waited for a core in vain.

        Others overtake only those that wait for a core, since a container that may start beyond the cores starts at
        once, those that the ResourceManager does not know yet, and those that do not fit where the `fill` policy says
        so.
        """
        while (first := self._next(now_s)) is not None:
            if obstacle(self._room, first.view.resources, now_s) and (first := self._filling(first, now_s)) is None:
                break
            self._launches.release(self.state.containers[first.view.id], now_s)
        self._forget_gone()
        for container_id in [cid for cid, until_s in self._patient.items() if until_s <= now_s]:
            del self._patient[container_id]
            self._endings.give_up(container_id, EventKind.SHED, _NO_CORE, now_s, "late")

    def _filling(self, head: WaitingStart, now_s: float) -> WaitingStart | None:
        """Return the next start that fits and may use the room that the first of the queue leaves idle."""
        policies = self._policies
        if len(self.state.queue) == 1 or not policies.fills():
            return None
        forecast = Forecast(self._room, now_s)
        starts_in_s = {start.view.id: at_s for start, at_s in zip(forecast.waiting, forecast.starts_s, strict=True)}
        for number, start in enumerate(forecast.waiting[:FILL_LOOKED_AT]):
            small = start.view.resources != head.view.resources and not self._stays(start)
            if small and not obstacle(self._room, start.view.resources, now_s):
                gap = Gap(head.view, starts_in_s[head.view.id], forecast.delay_s(number))
                if policies.fill(start.view, gap):
                    return start
        return None

    def _next(self, now_s: float) -> WaitingStart | None:
        """Return the first in the queue that waits neither for a core nor for the ResourceManager."""
        queue = self.state.queue
        head = queue.head(now_s)
        if head is None or not self._stays(head):
            return head
        return next((start for start in queue.in_order(now_s) if not self._stays(start)), None)

    def _stays(self, start: WaitingStart) -> bool:
        """Return whether a start waits for a core, or until the ResourceManager knows its container."""
        return start.view.id in self._unknown or self._for_core(start)

    def _for_core(self, start: WaitingStart) -> bool:
        """Return whether a start waits for a core, and the node has not so many vcores that nobody runs on."""
        state = self.state
        if not state.rules.count_vcores or start.view.id not in self._patient:
            return False
        return start.view.resources.vcores > state.free().vcores

    @property
    def ahead(self) -> int:
        """How many held starts wait for a core of their own."""
        self._forget_gone()
        return len(self._patient)

    def deadline_s(self) -> float | None:
        """Return when the first of the starts that wait for a core does so no longer, None when there is none."""
        self._forget_gone()
        return min(self._patient.values(), default=None) if self._patient else None

    def _forget_gone(self) -> None:
        queue = self.state.queue
        if self._unknown:
            self._unknown = {name: awaited for name, awaited in self._unknown.items() if name in queue}
        if self._patient:
            self._patient = {name: until_s for name, until_s in self._patient.items() if name in queue}

    def forced(self, event: Forced) -> None:
        """Release a held start as soon as it may go, because only the NodeManager can answer a call about it."""
        container = self.state.containers.get(event.container_id)
        if container is None or container.phase is not Phase.WAITING:
            return
        if container.id in self._unknown:
            self._unknown[container.id] = True
        else:
            self._launches.release(container, event.now_s)
