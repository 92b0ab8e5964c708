"""Executes the proxy's orders: queue limits, sheds, promotions and drains."""

from __future__ import annotations

import math
from collections.abc import Iterable

from quicksilver.common.messages import EventKind, Expected, Shed
from sidecar.node.container import GUARANTEED, QUEUEABLE
from sidecar.node.endings import Endings
from sidecar.node.events import Drain, Released, Targeted, Warn
from sidecar.node.forecast import Forecast
from sidecar.node.node_room import NodeRoom
from sidecar.node.phases import Phase
from sidecar.node.queue.shedding import EVERY_S, excess, limits
from sidecar.node.wait_reason import beyond_limit


class ProxyOrders:
    """Executes the proxy's orders to the node."""

    def __init__(self, room: NodeRoom, endings: Endings) -> None:
        self.state, self._room, self._endings = room.state, room, endings
        self._shed_s = -math.inf
        """When containers beyond the targets were last shed."""

    def targeted(self, event: Targeted) -> None:
        """Apply the proxy's targets; shed and promote the containers that it names."""
        state = self.state
        if event.targets is not None:
            state.targets, state.targets_s = event.targets, event.now_s
            state.queue.job_sizes(event.targets.job_remaining_s)
            self._expect(event.targets.expected)
            state.out.extend(state.sharing.jobs(event.targets.job_attained_s, event.targets.spared, event.now_s))
        for shed in event.shed:
            self._shed(shed, event.now_s)
        for container_id in event.promoted:
            self._promote(container_id, event.now_s)
        self._shed_beyond_share(event.now_s)
        self._shed_excess(event.now_s)

    def _shed(self, shed: Shed, now_s: float) -> None:
        """Shed a container that waits; kill one that runs, if its application has to give it back (slot `admit`)."""
        container = self.state.containers.get(shed.container_id)
        if shed.cause == "admit" and container is not None and self._endings.killable(container):
            self._endings.kill(container, shed.reason, shed.cause, now_s)
        else:
            self._endings.give_up(shed.container_id, EventKind.SHED, shed.reason, now_s, shed.cause)

    def tick(self, now_s: float) -> None:
        """Drop targets that are too old."""
        until_s = self.state.targets_until_s()
        if until_s is not None and until_s <= now_s:
            self.state.targets = None
            text = f"nothing from the proxy for {self.state.rules.targets_keep_s:g} s: its limits hold no more"
            self.state.out.append(Warn("", text))

    def _expect(self, news: Iterable[Expected]) -> None:
        """Apply the latest expected run times of running and waiting tasks."""
        by_stage = {(each.app_id, each.priority): each for each in news}
        for container in self.state.containers.values() if by_stage else ():
            expected = by_stage.get((container.start.app_id, container.priority))
            if expected is not None:
                container.expected = expected
                self.state.queue.expect(container.id, container.expected_s, container.spread_s)

    def _promote(self, container_id: str, now_s: float) -> None:
        """Count a running queueable container as guaranteed: it is never killed, shrunk or frozen again."""
        state = self.state
        container = state.containers.get(container_id)
        if container is None or container.phase is not Phase.RUNNING or container.kind == GUARANTEED:
            return
        was_queueable = container.kind == QUEUEABLE
        container.kind = GUARANTEED
        state.mark(container.id)
        state.out.extend(state.sharing.pin(container.id, now_s))
        if not was_queueable:
            return
        state.last_queueable_s = now_s
        if not state.needs_session(container.start.attempt_id):
            state.out.append(Released(container.start.attempt_id))

    def _shed_beyond_share(self, now_s: float) -> None:
        """Shed containers that could not start here even if no other queueable one ran."""
        limit = self._room.limit_q()
        if limit is None:
            return
        for waiting in self.state.queue.in_order(now_s):
            need = self.state.containers[waiting.view.id].start.resources
            if not self._room.counted(need).fits(limit):
                reason = beyond_limit(self._room, need, limit)
                self._endings.give_up(waiting.view.id, EventKind.SHED, reason, now_s, "police")

    def _shed_excess(self, now_s: float) -> None:
        """Shed containers that wait beyond the targets, at most once a second."""
        state, targets = self.state, self.state.targets
        if targets is None or not limits(targets) or len(state.queue) < 2 or now_s - self._shed_s < EVERY_S:
            return
        self._shed_s = now_s
        ahead = Forecast(self._room, now_s)
        for container_id, why in excess(ahead.waiting, ahead.starts_s, targets, now_s):
            self._endings.give_up(container_id, EventKind.SHED, why, now_s, "shed")

    def drain(self, event: Drain) -> None:
        """Begin or end a drain; when it begins, waiting containers are shed."""
        state = self.state
        state.drains.pop(event.by, None)
        if event.on:
            state.drains[event.by] = event.reason
            for waiting in state.queue.in_order(event.now_s):
                self._endings.give_up(waiting.view.id, EventKind.SHED, event.reason, event.now_s, "drain")
