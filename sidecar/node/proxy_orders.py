"""What the proxy wants of the node: limits to its queue, containers shed or promoted, nothing held any more."""

from __future__ import annotations

import math

from quicksilver.common.messages import EventKind
from sidecar.node.container import GUARANTEED, QUEUEABLE, Phase
from sidecar.node.endings import Ends
from sidecar.node.events import Drain, Released, Targeted
from sidecar.node.forecast import Forecast
from sidecar.node.shedding import EVERY_S, excess, limits


class Demands(Ends):
    """The part of the node machine that does what the proxy wants of it."""

    _shed_s = -math.inf
    """When what waits beyond the targets was last shed."""

    def _targeted(self, event: Targeted) -> None:
        """Take in the proxy's targets, and shed what it wants shed."""
        if event.targets is not None:
            self.targets, self.targets_s = event.targets, event.now_s
            self.queue.job_sizes(event.targets.job_remaining_s)
            self.expect(event.targets.expected)
        for shed in event.shed:
            self._give_up(shed.container_id, EventKind.SHED, shed.reason, event.now_s, shed.cause)
        for container_id in event.promoted:
            self._promote(container_id, event.now_s)
        self._shed_beyond_share(event.now_s)
        self._shed_excess(event.now_s)

    def _promote(self, container_id: str, now_s: float) -> None:
        """Count a running queueable container as guaranteed: it is never killed, shrunk or frozen again."""
        entry = self.entries.get(container_id)
        if entry is None or entry.phase is not Phase.RUNNING or entry.kind == GUARANTEED:
            return
        was_queueable = entry.kind == QUEUEABLE
        entry.kind = GUARANTEED
        self._mark(entry.id)
        self._out.extend(self.sharing.pin(entry.id, now_s))
        if not was_queueable:
            return
        self.last_queueable_s = now_s
        if not self.needs_session(entry.start.attempt_id):
            self._out.append(Released(entry.start.attempt_id))

    def _shed_beyond_share(self, now_s: float) -> None:
        """Shed what could not start here even if no other queueable container ran: it would wait for the limit."""
        whole = self.whole_for_queueable()
        if whole is None:
            return
        for waiting in self.queue.in_order(now_s):
            need = self.entries[waiting.view.id].start.resources
            if not self.counted(need).fits(whole):
                self._give_up(waiting.view.id, EventKind.SHED, self.beyond(need, whole), now_s, "police")

    def _shed_excess(self, now_s: float) -> None:
        """Shed what waits beyond the targets, at most once a second."""
        targets = self.targets
        if targets is None or not limits(targets) or len(self.queue) < 2 or now_s - self._shed_s < EVERY_S:
            return
        self._shed_s = now_s
        ahead = Forecast(self, now_s)
        for container_id, why in excess(ahead.waiting, ahead.starts_s, targets, now_s):
            self._give_up(container_id, EventKind.SHED, why, now_s, "shed")

    def _drain(self, event: Drain) -> None:
        self.drains.pop(event.by, None)
        if event.on:
            self.drains[event.by] = event.reason
            for waiting in self.queue.in_order(event.now_s):
                self._give_up(waiting.view.id, EventKind.SHED, event.reason, event.now_s, "drain")
