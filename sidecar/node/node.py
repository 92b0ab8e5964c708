"""The node machine: decides which containers run, wait or are killed. Events in, commands out.

Guaranteed first (Mercury, ATC '15, §3): a guaranteed start never waits in the queue; queueable containers that stand in
its way are killed and seen gone before it is let through. A queueable container starts when there is room: memory and
vcores of the node less what was sent to the NodeManager, and physical memory. Its application master was answered
"started" all the while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidecar.cpu_sharing.events import ReadyContainer, Resized, Served, Squeezed
from sidecar.node.container import Rules
from sidecar.node.emptying import BY, Emptying
from sidecar.node.endings import Endings
from sidecar.node.events import (
    Adopted,
    Answered,
    Arrived,
    Command,
    Doubtful,
    Drain,
    Dropped,
    Dying,
    Ended,
    Event,
    Forced,
    Granted,
    KillAsked,
    KillOver,
    Localized,
    NodeManagerQueues,
    NodeManagerState,
    NowKnown,
    Physical,
    Retuned,
    SessionLost,
    SessionUp,
    StopAsked,
    Targeted,
    Tick,
    Unfinished,
    Unlaunched,
    Withdrawn,
)
from sidecar.node.nm_queue import NmQueue
from sidecar.node.node_policies import NodePolicies
from sidecar.node.node_room import NodeRoom
from sidecar.node.node_state import NodeState
from sidecar.node.proxy_orders import ProxyOrders
from sidecar.node.recovery import NodeRecovery, Restored
from sidecar.node.sharing import Sharing
from sidecar.node.starts.admission import StartAdmission
from sidecar.node.starts.guaranteed_starts import GuaranteedStarts
from sidecar.node.starts.held_starts import HeldStarts
from sidecar.node.starts.launches import Launches

Handler = Callable[[Any], None]
"""Handles one class of events: changes the state, and puts commands into `state.out`."""


class SidecarNode:
    """One node, composed of its parts. `handle(event)` is the only way in; `state` and `room` may be read."""

    def __init__(self, rules: Rules, policies: NodePolicies, sharing: Sharing | None = None) -> None:
        self.state = state = NodeState(rules, policies, sharing)
        self.room = NodeRoom(state)
        self.endings = Endings(state)
        self.launches = Launches(state, self.endings)
        self.guaranteed = GuaranteedStarts(self.room, self.endings, self.launches, policies)
        self.held_starts = HeldStarts(self.room, self.endings, self.launches, policies)
        self.admission = StartAdmission(self.endings, self.launches, self.guaranteed, self.held_starts)
        self.orders = ProxyOrders(self.room, self.endings)
        self.emptying = Emptying(state, self.endings, policies)
        self.nm_queue = NmQueue(state, self.endings, self.orders)
        self.recovery = NodeRecovery(state, self.endings, self.launches)
        self._handlers = self._by_event()

    def _by_event(self) -> dict[type[Any], Handler]:
        """Return the handler of each class of events."""
        return {
            Restored: self._restored,
            Granted: self.admission.granted,
            NowKnown: self.admission.known,
            Dropped: self.admission.dropped,
            Arrived: self.admission.arrived,
            Withdrawn: self.admission.withdrawn,
            Forced: self.held_starts.forced,
            Answered: self.launches.answered,
            Ended: self.endings.ended,
            KillOver: self.endings.kill_over,
            KillAsked: self.endings.kill_asked,
            StopAsked: self.endings.stop_asked,
            Dying: self.endings.dying,
            SessionUp: self.endings.session_up,
            SessionLost: self.endings.session_lost,
            Adopted: self.recovery.adopted,
            Doubtful: self.recovery.cleared_up,
            Unlaunched: self.recovery.unlaunched,
            Unfinished: self.recovery.unfinished,
            Localized: self.nm_queue.localized,
            NodeManagerQueues: self.nm_queue.queues,
            Targeted: self.orders.targeted,
            Drain: self._drain,
            Physical: self._physical,
            NodeManagerState: self._nodemanager,
            Squeezed: self._squeezed,
            Retuned: self._retuned,
            ReadyContainer: self._shared,
            Served: self._shared,
            Resized: self._shared,
            Tick: self._tick,
        }

    def handle(self, event: Event | Restored) -> list[Command]:
        """Handle an event; return the commands to execute, in order."""
        out: list[Command] = []
        self.state.out = out
        self._handlers[type(event)](event)
        if self.guaranteed.waiting:
            self.guaranteed.let_through(event.now_s)
        if self.state.queue:
            self.held_starts.release_fitting(event.now_s)
        return out

    def deadline_s(self) -> float | None:
        """Return the latest time of the next Tick."""
        state = self.state
        deadlines = (
            state.deadline_s(),
            state.sharing.deadline_s(),
            state.targets_until_s(),
            self.nm_queue.deadline_s(),
            self.emptying.deadline_s(),
            self.held_starts.deadline_s(),
        )
        return min((at_s for at_s in deadlines if at_s is not None), default=None)

    # Events of the node itself

    def _restored(self, event: Restored) -> None:
        self.recovery.restored(event)
        drain = event.memory.drain
        if drain is not None:
            timeout_s = None if drain.until_s is None else max(0.0, drain.until_s - event.now_s)
            self._drain(Drain(True, drain.reason, event.now_s, BY, timeout_s))

    def _drain(self, event: Drain) -> None:
        self.orders.drain(event)
        self.emptying.drain(event)

    def _physical(self, event: Physical) -> None:
        self.state.free_physical_mb = event.free_mb

    def _nodemanager(self, event: NodeManagerState) -> None:
        self.state.nm_down = event.why

    def _squeezed(self, event: Squeezed) -> None:
        self.state.squeezed = event.why if event.on else ""
        self._shared(event)

    def _retuned(self, event: Retuned) -> None:
        self.room.retune(event.shrinking)
        self.state.out.extend(self.state.sharing.retune(event.shrinking, event.now_s))

    def _shared(self, event: ReadyContainer | Served | Resized | Squeezed) -> None:
        self.state.out.extend(self.state.sharing.handle(event))

    def _tick(self, event: Tick) -> None:
        now_s = event.now_s
        self.orders.tick(now_s)
        self.nm_queue.tick(now_s)
        self.emptying.tick(now_s)
        self.endings.give_up_expired(now_s)
        self.admission.tick(now_s)
        self.endings.forget_over(now_s)
        self.state.out.extend(self.state.sharing.turn(now_s))
