"""Decides on each arriving start: hold it, forward it, or make room for a guaranteed one."""

from __future__ import annotations

from quicksilver.common.messages import EventKind
from sidecar.node.container import FOREIGN, GUARANTEED, QUEUEABLE, Container, app_of_attempt, may_be_unknown
from sidecar.node.endings import Endings
from sidecar.node.events import Arrived, Dropped, Forward, Granted, Hold, NowKnown, Warn, Withdrawn
from sidecar.node.phases import STARTS, WANTING, Phase
from sidecar.node.starts.guaranteed_starts import GuaranteedStarts
from sidecar.node.starts.held_starts import HeldStarts
from sidecar.node.starts.launches import Launches

_UNDECIDED = WANTING | {Phase.UNANNOUNCED}
_HELD = STARTS | {Phase.WAITING}
_DROPPED = "dropped by the proxy"
_UNKNOWN = "the proxy granted it itself and did not announce it: the ResourceManager may not know it"


class StartAdmission:
    """Decides on starts according to the proxy's announcements."""

    def __init__(self, endings: Endings, launches: Launches, guaranteed: GuaranteedStarts, starts: HeldStarts) -> None:
        self.state, self._endings, self._launches = endings.state, endings, launches
        self._guaranteed, self._held_starts = guaranteed, starts

    # Announcements

    def granted(self, event: Granted) -> None:
        """Store announcements, and decide on starts that arrived before their announcement."""
        state = self.state
        for grant in event.grants:
            container = state.containers.get(grant.container_id)
            if container is not None and container.unknown and grant.known:
                self._held_starts.known(container, event.now_s)
            if grant.container_id in state.over or (container is not None and container.phase is not Phase.UNANNOUNCED):
                continue  # its start has arrived before
            state.announced.pop(grant.container_id, None)
            state.announced[grant.container_id] = (grant, event.now_s)
            state.mark(grant.container_id)
            if container is not None:
                self._decide(container, event.now_s)
        while len(state.announced) > state.rules.announced_max:
            oldest = next(iter(state.announced))
            del state.announced[oldest]
            state.mark(oldest)
            text = f"more than {state.rules.announced_max} announced: the oldest is forgotten"
            state.out.append(Warn(oldest, text))

    def known(self, event: NowKnown) -> None:
        """Let the starts of containers go that the ResourceManager knows by now."""
        state = self.state
        for container_id in event.container_ids:
            grant, since_s = state.announced.get(container_id, (None, 0.0))
            container = state.containers.get(container_id)
            if grant is not None:
                state.announced[container_id] = grant.model_copy(update={"known": True}), since_s
                state.mark(container_id)
            elif container is not None and container.unknown:
                self._held_starts.known(container, event.now_s)

    def dropped(self, event: Dropped) -> None:
        """Handle that the proxy wants no start of these containers any more."""
        for container_id in event.container_ids:
            self._drop(container_id, event.reason or _DROPPED, event.now_s)

    def _drop(self, container_id: str, reason: str, now_s: float) -> None:
        state = self.state
        grant, _ = state.announced.pop(container_id, (None, 0.0))
        if grant is not None:
            state.mark(container_id)
            state.unwanted[container_id] = grant, reason, now_s
            if len(state.unwanted) > state.rules.announced_max:
                del state.unwanted[next(iter(state.unwanted))]
        container = state.containers.get(container_id)
        if container is not None and container.phase in STARTS and container.kind == QUEUEABLE:
            container.kill_reason, container.kill_cause = reason, "proxy"
            state.mark(container_id)
        else:
            self._endings.give_up(container_id, EventKind.STOPPED, reason, now_s)

    # Starts

    def arrived(self, event: Arrived) -> None:
        """Decide on a start; a repeated one gets the answer of the first."""
        state, start, now_s = self.state, event.start, event.now_s
        known = state.containers.get(start.container_id)
        if known is not None:
            if known.phase not in _UNDECIDED:
                waits = known.kind == QUEUEABLE and known.phase in _HELD
                state.out.append(Hold(start.container_id) if waits else Forward(start.container_id))
            return  # the decision on the first one answers both
        if start.container_id in state.over:
            state.out.append(Hold(start.container_id))  # its end was reported: only the answer was lost
        elif start.opportunistic:
            container = Container(start, FOREIGN, Phase.UNANNOUNCED, now_s, now_s)
            container.until_s = now_s + state.rules.announce_wait_s
            state.add(container)
            self._decide(container, now_s)
        else:
            self._guaranteed.arrived(Container(start, GUARANTEED, Phase.ROOM, now_s, now_s), now_s)

    def _decide(self, container: Container, now_s: float) -> None:
        """Hold an opportunistic start that the proxy announced; any other keeps waiting for an announcement."""
        state, start = self.state, container.start
        grant, _ = state.announced.get(container.id, (None, 0.0))
        if grant is None:
            self._decide_unwanted(container, now_s)
            return
        if not grant.app_id == start.app_id == app_of_attempt(start.attempt_id):
            text = f"its start came on a session of {start.attempt_id or 'nobody'}: not held"
            state.out.append(Warn(container.id, text))
            self._launches.forward(container, now_s)
            return
        del state.announced[container.id]
        container.kind, container.grant = QUEUEABLE, grant
        self._held_starts.hold(container, grant, now_s)

    def _decide_unwanted(self, container: Container, now_s: float) -> None:
        """Answer a start that was dropped before it arrived: nothing starts, as its application knows of its end."""
        start = container.start
        grant, reason, _ = self.state.unwanted.get(container.id, (None, "", 0.0))
        if grant is not None and grant.app_id == start.app_id == app_of_attempt(start.attempt_id):
            container.kind, container.grant = QUEUEABLE, grant
            self.state.out.append(Hold(container.id))
            self._endings.finish(container, EventKind.STOPPED, reason, now_s)

    def withdrawn(self, event: Withdrawn) -> None:
        """Forget a start whose connection closed before the decision on it."""
        container = self.state.containers.get(event.container_id)
        if container is None:
            return
        if container.phase in WANTING:
            self._guaranteed.withdraw(container)
        elif container.phase is Phase.UNANNOUNCED:
            self.state.remove(container)

    def tick(self, now_s: float) -> None:
        """Forward opportunistic starts that no grant announced in time, and forget old announcements.

        One that the ResourceManager may not know is refused: it would run, be killed, and its application never hear.
        """
        state, keep_s = self.state, self.state.rules.announce_keep_s
        for container in list(state.containers.values()):
            if container.phase is not Phase.UNANNOUNCED or container.until_s > now_s:
                continue
            if may_be_unknown(container.id):
                container.kind = QUEUEABLE
                state.out.append(Hold(container.id))
                self._endings.finish(container, EventKind.SHED, _UNKNOWN, now_s, "late")
            else:
                self._launches.forward(container, now_s)
        for container_id, (_, since_s) in list(state.announced.items()):
            if since_s + keep_s > now_s:
                break
            del state.announced[container_id]
            state.mark(container_id)
        for container_id in [c for c, (*_, since_s) in state.unwanted.items() if since_s + keep_s <= now_s]:
            del state.unwanted[container_id]
