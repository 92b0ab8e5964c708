"""Ends of containers: they exit, are killed to make room, or are given up while they wait."""

from __future__ import annotations

from typing import Final

from quicksilver.common.messages import EventKind
from sidecar.node.container import QUEUEABLE, Container, is_earlier
from sidecar.node.events import (
    Dying,
    Ended,
    Kill,
    KillAsked,
    KillOver,
    LetGo,
    Released,
    SessionLost,
    SessionUp,
    Settled,
    StopAsked,
    Unwatch,
    Warn,
)
from sidecar.node.node_state import NodeState
from sidecar.node.phases import KILLED, STARTS, USING, WANTING, Phase

NEVER_RAN: Final = frozenset((EventKind.SHED, EventKind.STOPPED, EventKind.FAILED, EventKind.LOST))
"""Last events of containers that never ran."""
_HELD: Final = STARTS | {Phase.WAITING}


class Endings:
    """Ends containers, reports their ends and forgets them."""

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def killable(self, container: Container) -> bool:
        """Return whether a container may be killed here: queueable, started, and not being killed."""
        started = container.phase is Phase.RUNNING or container.phase in STARTS
        return started and not container.kill_reason and container.kind == QUEUEABLE

    def kill(self, container: Container, reason: str, cause: str, now_s: float) -> None:
        """Stop a container; one whose start is not answered yet is stopped after the answer."""
        state = self.state
        container.kill_reason, container.kill_cause = reason, cause
        state.mark(container.id)
        if container.phase in STARTS:
            return
        state.report(container, EventKind.KILLED, reason, now_s, cause)
        attempt_id = container.start.attempt_id
        reachable = attempt_id in state.sessions
        state.move(container, Phase.KILLING if reachable else Phase.STRANDED, now_s)
        self.let_go(container.id, now_s)
        if reachable:
            state.out.append(Kill(container.id, attempt_id))

    def kill_asked(self, event: KillAsked) -> None:
        """Kill a container because memory runs out; one that cannot be killed any more is on its way already."""
        container = self.state.containers.get(event.container_id)
        if container is not None and self.killable(container):
            self.kill(container, event.reason, "memory", event.now_s)

    def dying(self, event: Dying) -> None:
        """Handle that the NodeManager is killing a container."""
        self.let_go(event.container_id, event.now_s)

    def let_go(self, container_id: str, now_s: float) -> None:
        """Give full limits to a container that is about to end: a frozen process cannot even die."""
        state = self.state
        if state.sharing.share(container_id) is not None:
            state.out.append(LetGo(container_id))
            state.out.extend(state.sharing.leave(container_id, now_s))

    def kill_over(self, event: KillOver) -> None:
        """Handle the outcome of a kill."""
        state = self.state
        container = state.containers.get(event.container_id)
        if container is None or container.phase not in KILLED:
            return
        if event.gone or container.process_gone:
            self.forget(container, event.now_s)
            return
        if container.phase is not Phase.STRANDED:
            state.move(container, Phase.STRANDED)
        state.out.append(Warn(container.id, f"the NodeManager did not stop it: {event.text}"))
        for guaranteed in [c for c in state.containers.values() if c.phase in WANTING]:
            guaranteed.until_s = event.now_s

    def ended(self, event: Ended) -> None:
        """Handle that a container's process is gone; an outstanding start or kill is completed first."""
        state, now_s = self.state, event.now_s
        container = state.containers.get(event.container_id)
        if container is None or container.phase not in USING:
            return
        container.process_gone = True
        if container.start.am:
            for waiting in [w for w in state.queue if w.attempt_id == container.start.attempt_id]:
                self.give_up(waiting.view.id, EventKind.LOST, "its application master is gone", now_s)
        if container.phase is Phase.RUNNING:
            self.finish(container, EventKind.ENDED, "", now_s)
        elif container.phase is Phase.STRANDED:
            self.forget(container, now_s)
        if container.taken_over and container.phase not in STARTS:
            state.over[container.id] = now_s

    def stop_asked(self, event: StopAsked) -> None:
        """Handle that the application master stopped a waiting container."""
        self.give_up(event.container_id, EventKind.STOPPED, "stopped by the application master", event.now_s)

    def give_up(self, container_id: str, kind: EventKind, reason: str, now_s: float, cause: str = "") -> None:
        """End a waiting start; ignore any other container."""
        container = self.state.containers.get(container_id)
        if container is not None and container.phase is Phase.WAITING:
            self.finish(container, kind, reason, now_s, cause)

    def give_up_expired(self, now_s: float) -> None:
        """End the starts that have waited up to their hold limit."""
        for waiting in self.state.queue.expired(now_s):
            why = f"hold limit reached after {now_s - waiting.view.arrived_s:.1f} s"
            self.give_up(waiting.view.id, EventKind.SHED, why, now_s, "hold")

    def finish(self, container: Container, kind: EventKind, reason: str, now_s: float, cause: str = "") -> None:
        """Report the last event of a container, and forget it."""
        self.state.report(container, kind, reason, now_s, cause)
        self.forget(container, now_s)
        if container.kind == QUEUEABLE and kind in NEVER_RAN:
            self.state.over[container.id] = now_s

    def forget(self, container: Container, now_s: float) -> None:
        """Remove a container, and its attempt's session if nothing needs it any more."""
        state = self.state
        state.remove(container)
        state.mark(container.id)
        if container.id in state.queue:
            state.queue.remove(container.id)
        if container.phase in USING:
            state.out.append(Unwatch(container.id))
            state.out.extend(state.sharing.leave(container.id, now_s))
        if container.kind != QUEUEABLE:
            return
        if container.phase in USING:
            state.last_queueable_s = now_s
        if container.phase in _HELD:
            state.out.append(Settled(container.id))
        if not state.needs_session(container.start.attempt_id):
            state.out.append(Released(container.start.attempt_id))

    def forget_over(self, now_s: float) -> None:
        """Forget ends that were reported long ago."""
        state, rules = self.state, self.state.rules
        for container_id, since_s in list(state.over.items()):
            if since_s + rules.announce_keep_s > now_s and len(state.over) <= rules.announced_max:
                return
            del state.over[container_id]
            state.mark(container_id)

    # Sessions

    def session_up(self, event: SessionUp) -> None:
        """Kill containers that could not be killed without a session; give up held starts of earlier attempts."""
        state, attempt_id = self.state, event.attempt_id
        state.sessions.add(attempt_id)
        for container in state.containers.values():
            if container.phase is Phase.STRANDED and container.start.attempt_id == attempt_id:
                state.move(container, Phase.KILLING_AGAIN)
                state.out.append(Kill(container.id, attempt_id))
        for waiting in [w for w in state.queue if is_earlier(w.attempt_id, attempt_id)]:
            self.give_up(waiting.view.id, EventKind.LOST, f"{attempt_id} has begun meanwhile", event.now_s)

    def session_lost(self, event: SessionLost) -> None:
        """End the held starts of an attempt whose last session is gone."""
        state, attempt_id = self.state, event.attempt_id
        state.sessions.discard(attempt_id)
        for waiting in [w for w in state.queue if w.attempt_id == attempt_id]:
            self.give_up(waiting.view.id, EventKind.LOST, "the session with the NodeManager was lost", event.now_s)
