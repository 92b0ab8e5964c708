"""What a life of the sidecar takes over: from the journal of the life before, and from the NodeManager's list.

What waited cannot start any more, because its launch request and its session died with the process: it is told as lost,
and asked for again. What runs is counted, watched and resized as before. Of a start without an answer the
NodeManager's list knows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from quicksilver.common.messages import EventKind
from sidecar.node.container import FOREIGN, GUARANTEED, QUEUEABLE, Entry, Phase
from sidecar.node.events import Adopted, Answered, Doubtful, Outcome, Start, Unlaunched, Watch
from sidecar.node.journal_records import SEQ_SKIPPED, Kept, Memory
from sidecar.node.proxy_orders import Demands

RESTARTED: Final = "the sidecar restarted"
UNLAUNCHED: Final = "its NodeManager was restarted before its launch, and does not launch it any more"
UNLAUNCHED_S: Final = 10.0
"""So long a NodeManager that was restarted may take for the launch of what it recovered."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The journal of the life before; told before anything else."""

    memory: Memory
    now_s: float


class TakeOver(Demands):
    """The part of the node machine that takes over what it did not start itself."""

    @abstractmethod
    def _answered(self, event: Answered) -> None: ...

    def _restored(self, event: Restored) -> None:
        memory, now_s = event.memory, event.now_s
        self.seq = memory.seq + SEQ_SKIPPED
        self.announced.update(memory.announced)
        self.over.update(memory.over)
        for kept in memory.entries.values():
            self._recall(kept, now_s)

    def _recall(self, kept: Kept, now_s: float) -> None:
        entry = kept.entry()
        entry.taken_over = True
        self.entries[entry.id] = entry
        if entry.phase is Phase.WAITING:
            self._finish(entry, EventKind.LOST, RESTARTED, now_s)
            return
        if entry.phase is Phase.STARTING:
            entry.doubtful, entry.since_s = True, now_s
            self._mark(entry.id)
        if entry.phase is Phase.KILLING:
            entry.stranded = entry.kill_over = True
        else:
            self._out.extend(self.sharing.join(entry, now_s, kept.story))
        self._out.append(Watch(entry.id, entry.start.app_id))

    def _cleared_up(self, event: Doubtful) -> None:
        """Take in whether the NodeManager has a start of which the answer died with an earlier life.

        One that it has not may still come, from a call on its way: the proxy releases what is lost, and then the
        ResourceManager has it ended. Who asked for a guaranteed one asks again.
        """
        entry = self.entries.get(event.container_id)
        if entry is None or not entry.doubtful or entry.phase is not Phase.STARTING:
            return
        if event.there:
            self._answered(Answered(entry.id, Outcome.STARTED, "", event.now_s))
        elif entry.kind == QUEUEABLE:
            self._finish(entry, EventKind.LOST, f"{RESTARTED} while it was being started", event.now_s)
        else:
            self._forget(entry, event.now_s)

    def _unlaunched(self, event: Unlaunched) -> None:
        """Tell as lost what the NodeManager has, and lost for its own launcher when it was restarted.

        A NodeManager (3.4) that recovers what stood in its queue tries to launch it before it is initialized, and drops
        the failure (ContainerScheduler, RECOVERY_COMPLETED): it stays SCHEDULED for ever. The proxy releases what is
        lost, so that the ResourceManager has it ended; until the NodeManager lists it no more it counts as use, as it
        does there. Hadoop's own opportunistic ones may wait there for their turn.
        """
        entry = self.entries.get(event.container_id)
        if entry is None or entry.phase is Phase.STARTING or entry.kind == FOREIGN or entry.start.am:
            return
        if entry.unlaunched_s is None:
            entry.unlaunched_s = event.now_s
        elif event.now_s - entry.unlaunched_s >= UNLAUNCHED_S:
            start = entry.start
            self._finish(entry, EventKind.LOST, UNLAUNCHED, event.now_s)
            self._adopted(Adopted(start.container_id, start.app_id, start.resources, start.opportunistic, event.now_s))

    def _adopted(self, event: Adopted) -> None:
        """Take over what the NodeManager lists and nobody knows; what was announced is the proxy's."""
        if event.container_id in self.entries:
            return
        start = Start(event.container_id, event.app_id, "", event.resources, event.opportunistic)
        grant, _ = self.announced.pop(event.container_id, (None, 0.0))
        kind = QUEUEABLE if grant else FOREIGN if event.opportunistic else GUARANTEED
        if grant is not None:
            start = Start(
                start.container_id, start.app_id, grant.attempt_id, start.resources, True, priority=grant.priority
            )
        entry = Entry(start, kind, Phase.RUNNING, event.now_s, event.now_s, grant)
        entry.sent_s = entry.started_s = event.now_s
        entry.taken_over = True
        self.entries[entry.id] = entry
        self._mark(entry.id)
        if grant is not None:
            self._tell(entry, EventKind.STARTED, "the NodeManager started it before the sidecar knew", event.now_s)
        self._out.extend(self.sharing.join(entry, event.now_s))
        self._out.append(Watch(entry.id, entry.start.app_id))

    def to_release(self) -> Iterable[str]:
        """Return the containers that were killed and that no session can stop."""
        return [entry.id for entry in self.entries.values() if entry.stranded]

    def _forget_over(self, now_s: float) -> None:
        for container_id, since_s in list(self.over.items()):
            if since_s + self.rules.announce_keep_s > now_s and len(self.over) <= self.rules.announced_max:
                return
            del self.over[container_id]
            self._mark(container_id)
