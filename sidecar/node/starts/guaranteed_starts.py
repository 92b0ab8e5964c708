"""Makes room for guaranteed starts: queueable containers in their way end or are killed first."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Resources
from sidecar.node.container import Container
from sidecar.node.endings import Endings
from sidecar.node.events import ReportSoon, Warn
from sidecar.node.forecast import job_of
from sidecar.node.node_policies import NodePolicies
from sidecar.node.node_room import NodeRoom
from sidecar.node.phases import Phase
from sidecar.node.starts.launches import Launches

_NOTHING = Resources()


class GuaranteedStarts:
    """Makes room for guaranteed starts and forwards them."""

    def __init__(self, room: NodeRoom, endings: Endings, launches: Launches, policies: NodePolicies) -> None:
        self.state, self._room, self._endings, self._launches = room.state, room, endings, launches
        self._policies = policies
        self.waiting: dict[str, Container] = {}
        """The starts that have not been forwarded, by id, oldest first."""

    def arrived(self, container: Container, now_s: float) -> None:
        """Add a new start, which waits for its room."""
        state = self.state
        if container.start.attempt_id in self._launches.forgers:
            state.add(container)
            self._launches.forward(container, now_s)
            return
        container.until_s = now_s + state.rules.kill_wait_s
        need = self._room.short_for_guaranteed(state.free() + state.leaving(), container.start.resources, now_s)
        self.waiting[container.id] = container
        state.add(container)
        self._kill_for(container, self._await_ends(container, need, now_s), now_s)

    def withdraw(self, container: Container) -> None:
        """Forget a start whose connection closed."""
        self._await_no_more(container)
        del self.waiting[container.id]
        self.state.remove(container)

    def let_through(self, now_s: float) -> None:
        """Forward the guaranteed starts that have room, oldest first."""
        state = self.state
        for container in list(self.waiting.values()):
            room, need = state.rules.capacity - state.used(), container.start.resources
            short = self._room.short_for_guaranteed(room, need, now_s)
            leaving = any(c.kill_reason or c.awaited_by for c in state.using())
            if short == _NOTHING or not leaving:
                self._forward(container, now_s)
            elif now_s >= container.until_s and not self._grace_over(container, now_s):
                waited = f"{now_s - container.since_s:.1f} s"
                state.out.append(Warn(container.id, f"no room within {waited}: forwarded regardless"))
                self._forward(container, now_s)
            else:
                return

    def _await_ends(self, container: Container, need: Resources, now_s: float) -> Resources:
        """Let a start wait for containers that end soon, the next to end first; return the resources still short."""
        grace_s = self._policies.grace_s()
        if need == _NOTHING or grace_s <= 0:
            return need
        candidates = [c for c in self.state.using() if self._endings.killable(c) and not c.awaited_by]
        lefts = [(job_of(self._room, c, now_s, 0.0).remaining_s(), c.id, c) for c in candidates]
        for left_s, _, ending in sorted(lefts, key=lambda each: each[:2]):
            if left_s > grace_s or need == _NOTHING:
                break
            self._await_end(container, ending, now_s + grace_s)
            room = ending.start.resources
            need = Resources(max(0, need.memory_mb - room.memory_mb), max(0, need.vcores - room.vcores))
        return need

    def _kill_for(self, container: Container, need: Resources, now_s: float) -> None:
        """Kill the containers that the policy chooses to make room for a start; those that end soon stay."""
        if need == _NOTHING:
            return  # let_through decides
        state = self.state
        candidates = [c for c in state.using() if self._endings.killable(c) and not c.awaited_by]
        over = frozenset(state.targets.over_share) if state.targets is not None else frozenset()
        views = [replace(state.sharing.view(c), over_share=c.start.app_id in over) for c in candidates]
        victims = self._policies.victims(need, views, now_s)
        if not victims:
            size = f"{need.memory_mb} MB, {need.vcores:g} vcores"
            text = f"no queueable container can make room for it ({size} short): passed on"
            state.out.append(Warn(container.id, text))
            self._forward(container, now_s)
            return
        for victim in (state.containers[container_id] for container_id in victims):
            wait_s = self._policies.notice_s(victim.grant.app_type) if victim.grant is not None else 0.0
            if wait_s <= 0:
                self._endings.kill(victim, f"makes room for {container.id}", "room", now_s)
                continue
            self._await_end(container, victim, now_s + wait_s)
            victim.kill_s = now_s + wait_s
            state.out.append(ReportSoon())

    def _await_end(self, guaranteed: Container, ending: Container, until_s: float) -> None:
        """Let a start wait for the end of a container, until a time."""
        if guaranteed.phase is Phase.ROOM:
            self.state.move(guaranteed, Phase.GRACE)
            guaranteed.until_s = until_s
        guaranteed.until_s = max(guaranteed.until_s, until_s)
        ending.awaited_by = guaranteed.id

    def _grace_over(self, container: Container, now_s: float) -> bool:
        """Kill the containers that should have ended by now, and wait for their end; False if there are none."""
        if container.phase is not Phase.GRACE:
            return False
        late = [c for c in self.state.using() if c.awaited_by == container.id and self._endings.killable(c)]
        self._await_no_more(container)
        self.state.move(container, Phase.ROOM)
        container.until_s = now_s + self.state.rules.kill_wait_s
        for each in late:
            self._endings.kill(each, f"makes room for {container.id}, and did not end in time", "room", now_s)
        return True

    def _await_no_more(self, guaranteed: Container) -> None:
        if guaranteed.phase is Phase.GRACE:
            for container in self.state.containers.values():
                if container.awaited_by == guaranteed.id:
                    container.awaited_by, container.kill_s = "", None

    def _forward(self, container: Container, now_s: float) -> None:
        self._await_no_more(container)
        del self.waiting[container.id]
        self._launches.forward(container, now_s)
