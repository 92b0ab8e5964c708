"""State that a new sidecar process recovers from the previous one's journal and from the NodeManager's list.

A held start cannot start any more, because its launch request and its session died with the process: it is reported as
lost, and asked for again. A running container is counted, watched and resized as before. The NodeManager's list shows
whether a start without an answer went through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from quicksilver.common.messages import EventKind
from sidecar.node.container import FOREIGN, GUARANTEED, QUEUEABLE, Container
from sidecar.node.endings import Endings
from sidecar.node.events import Adopted, Answered, Doubtful, Outcome, Start, Unfinished, Unlaunched, Watch
from sidecar.node.journal_records import SEQ_SKIPPED, Kept, MemoryRecord
from sidecar.node.node_state import NodeState
from sidecar.node.phases import STARTS, Phase
from sidecar.node.starts.launches import Launches

RESTARTED: Final = "the sidecar restarted"
UNANSWERED: Final = "its NodeManager neither answered its start nor lists it"
UNLAUNCHED: Final = "its NodeManager was restarted before its launch, and does not launch it any more"
UNFINISHED: Final = "its NodeManager was restarted before its end, and does not take note of it"
UNLAUNCHED_S: Final = 10.0
"""How long a restarted NodeManager may take for the launch of a container that it recovered."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The journal of the previous process; handled before anything else."""

    memory: MemoryRecord
    now_s: float


class NodeRecovery:
    """Takes over containers that this sidecar process did not start."""

    def __init__(self, state: NodeState, endings: Endings, launches: Launches) -> None:
        self.state, self._endings, self._launches = state, endings, launches
        self._unfinished: dict[str, float] = {}
        """Since when the NodeManager does not take note of ends; infinite for containers that were reported."""

    def restored(self, event: Restored) -> None:
        """Restore the state of the previous process from its journal."""
        state, memory = self.state, event.memory
        state.seq = memory.seq + SEQ_SKIPPED
        state.announced.update(memory.announced)
        state.over.update(memory.over)
        for record in memory.entries.values():
            self._recall(record, event.now_s)

    def _recall(self, record: Kept, now_s: float) -> None:
        state, container = self.state, record.container()
        container.taken_over = True
        state.add(container)
        if container.phase is Phase.WAITING:
            self._endings.finish(container, EventKind.LOST, RESTARTED, now_s)
            return
        if container.phase is Phase.DOUBTFUL:
            container.since_s = now_s
            state.mark(container.id)
        if container.phase is not Phase.STRANDED:
            state.out.extend(state.sharing.join(container, now_s, record.story))
        state.out.append(Watch(container.id, container.start.app_id))

    def cleared_up(self, event: Doubtful) -> None:
        """Handle whether the NodeManager has a start whose answer was lost, with an earlier process or in this one.

        A start that it does not have may still arrive from a call under way: the proxy releases lost containers,
        and the ResourceManager then has them ended. A guaranteed one is asked for again by its application master.
        """
        container = self.state.containers.get(event.container_id)
        if container is None or container.phase not in STARTS:
            return
        if event.there:
            self._launches.answered(Answered(container.id, Outcome.STARTED, "", event.now_s))
        elif container.kind == QUEUEABLE:
            reason = f"{RESTARTED} while it was being started" if container.phase is Phase.DOUBTFUL else UNANSWERED
            self._endings.finish(container, EventKind.LOST, reason, event.now_s)
        else:
            self._endings.forget(container, event.now_s)

    def unlaunched(self, event: Unlaunched) -> None:
        """Report a container as lost if the NodeManager's own launcher lost it in a restart.

        A NodeManager (3.4) that recovers its queue tries to launch a container before it is initialized, and drops
        the failure (ContainerScheduler, RECOVERY_COMPLETED): it stays SCHEDULED for ever. The proxy releases what is
        lost, so that the ResourceManager has it ended; until the NodeManager lists it no more it counts as use, as it
        does there. Hadoop's own opportunistic ones may wait there for their turn.
        """
        container = self.state.containers.get(event.container_id)
        if container is None or container.phase in STARTS or container.kind == FOREIGN or container.start.am:
            return
        if container.unlaunched_s is None:
            container.unlaunched_s = event.now_s
        elif event.now_s - container.unlaunched_s >= UNLAUNCHED_S:
            start = container.start
            self._endings.finish(container, EventKind.LOST, UNLAUNCHED, event.now_s)
            self.adopted(Adopted(start.container_id, start.app_id, start.resources, start.opportunistic, event.now_s))

    def unfinished(self, event: Unfinished) -> None:
        """Report a container as lost that ended, if its restarted NodeManager does not take note of that.

        A NodeManager (3.4) with a queue recovers a running container as one to be launched, and wants room for it
        beside the room that it counts for it already (ContainerScheduler, recoverActiveContainer, scheduleContainer).
        On a full node all of them stand in its queue, so that no end is seen and none gives room. As soon as the
        ResourceManager has one of them ended, the others follow: one in UNLAUNCHED_S is reported.
        """
        now_s, before = event.now_s, self._unfinished
        since = {entry.container_id: before.get(entry.container_id, now_s) for entry in event.containers}
        due = next((entry for entry in event.containers if now_s - since[entry.container_id] >= UNLAUNCHED_S), None)
        if due is not None:
            since = {container_id: max(since_s, now_s) for container_id, since_s in since.items()}
            since[due.container_id] = math.inf
            start = Start(due.container_id, due.app_id, "", due.resources, due.opportunistic)
            container = Container(start, GUARANTEED, Phase.RUNNING, now_s, now_s)
            self.state.report(container, EventKind.LOST, UNFINISHED, now_s)
        self._unfinished = since

    def adopted(self, event: Adopted) -> None:
        """Adopt a container that the NodeManager lists and the sidecar does not know; an announced one is a Q."""
        state, now_s = self.state, event.now_s
        if event.container_id in state.containers:
            return
        start = Start(event.container_id, event.app_id, "", event.resources, event.opportunistic)
        grant, _ = state.announced.pop(event.container_id, (None, 0.0))
        kind = QUEUEABLE if grant else FOREIGN if event.opportunistic else GUARANTEED
        if grant is not None:
            start = replace(start, attempt_id=grant.attempt_id, opportunistic=True, priority=grant.priority)
        container = Container(start, kind, Phase.RUNNING, now_s, now_s, grant)
        container.sent_s = container.started_s = now_s
        container.taken_over = True
        state.add(container)
        state.mark(container.id)
        if grant is not None:
            state.report(container, EventKind.STARTED, "the NodeManager started it before the sidecar knew", now_s)
        state.out.extend(state.sharing.join(container, now_s))
        state.out.append(Watch(container.id, container.start.app_id))
