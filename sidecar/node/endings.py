"""How containers of the node end: by themselves, killed to make room, or given up while they wait."""

from __future__ import annotations

from typing import Final

from quicksilver.common.messages import EventKind
from sidecar.node.container import QUEUEABLE, USING, Entry, Phase
from sidecar.node.events import Kill, KillAsked, KillOver, LetGo, Released, Settled, Unwatch, Warn
from sidecar.node.node_state import Book

NEVER_RAN: Final = frozenset((EventKind.SHED, EventKind.STOPPED, EventKind.FAILED, EventKind.LOST))
"""Last events of containers whose start did not come to anything."""


class Ends(Book):
    """The part of the node machine that ends containers."""

    def killable(self, entry: Entry) -> bool:
        """Tell whether a container may be killed here: queueable, and running."""
        running = entry.phase in (Phase.STARTING, Phase.RUNNING) and not entry.kill_reason
        return running and entry.kind == QUEUEABLE

    def _kill(self, entry: Entry, reason: str, cause: str, now_s: float) -> None:
        entry.kill_reason, entry.kill_cause = reason, cause
        self._mark(entry.id)
        if entry.phase is Phase.STARTING:
            return  # stopped as soon as the NodeManager has answered its start
        self._tell(entry, EventKind.KILLED, reason, now_s, cause)
        entry.enter(Phase.KILLING, now_s)
        self._let_go(entry.id, now_s)
        if entry.start.attempt_id in self.sessions:
            self._out.append(Kill(entry.id, entry.start.attempt_id))
        else:
            entry.stranded = entry.kill_over = True

    def _kill_asked(self, event: KillAsked) -> None:
        """Kill a container because memory runs out; one that cannot be killed any more is on its way already."""
        entry = self.entries.get(event.container_id)
        if entry is not None and self.killable(entry):
            self._kill(entry, event.reason, "memory", event.now_s)

    def _let_go(self, container_id: str, now_s: float) -> None:
        """Let a container that is about to end run freely: one that stands still cannot even die."""
        if self.sharing.share(container_id) is not None:
            self._out.append(LetGo(container_id))
            self._out.extend(self.sharing.leave(container_id, now_s))

    def _kill_over(self, event: KillOver) -> None:
        entry = self.entries.get(event.container_id)
        if entry is None or entry.phase is not Phase.KILLING:
            return
        entry.kill_over = True
        if event.gone or entry.process_gone:
            self._forget(entry, event.now_s)
        else:
            entry.stranded = True
            self._out.append(Warn(entry.id, f"the NodeManager did not stop it: {event.text}"))
            for guaranteed in [e for e in self.entries.values() if e.phase is Phase.ROOM]:
                guaranteed.until_s = event.now_s

    def _ended(self, container_id: str, now_s: float) -> None:
        entry = self.entries.get(container_id)
        if entry is None or entry.phase not in USING:
            return
        entry.process_gone = True
        if entry.start.am:
            for waiting in [w for w in self.queue if w.attempt_id == entry.start.attempt_id]:
                self._give_up(waiting.view.id, EventKind.LOST, "its application master is gone", now_s)
        if entry.phase is Phase.RUNNING:
            self._finish(entry, EventKind.ENDED, "", now_s)
        elif entry.phase is Phase.KILLING and entry.kill_over:
            self._forget(entry, now_s)
        if entry.taken_over and entry.phase is not Phase.STARTING:
            self.over[container_id] = now_s

    def _give_up(self, container_id: str, kind: EventKind, reason: str, now_s: float, cause: str = "") -> None:
        """End a start that waits; nothing happens to what does not."""
        entry = self.entries.get(container_id)
        if entry is not None and entry.phase is Phase.WAITING:
            self._finish(entry, kind, reason, now_s, cause)

    def _finish(self, entry: Entry, kind: EventKind, reason: str, now_s: float, cause: str = "") -> None:
        """Report the last thing of a container, and forget it."""
        self._tell(entry, kind, reason, now_s, cause)
        self._forget(entry, now_s)
        if entry.kind == QUEUEABLE and kind in NEVER_RAN:
            self.over[entry.id] = now_s

    def _forget(self, entry: Entry, now_s: float) -> None:
        del self.entries[entry.id]
        self._mark(entry.id)
        if entry.id in self.queue:
            self.queue.remove(entry.id)
        if entry.phase in USING:
            self._out.append(Unwatch(entry.id))
            self._out.extend(self.sharing.leave(entry.id, now_s))
        if entry.kind != QUEUEABLE:
            return
        if entry.phase in USING:
            self.last_queueable_s = now_s
        if entry.phase in (Phase.WAITING, Phase.STARTING):
            self._out.append(Settled(entry.id))
        if not self.needs_session(entry.start.attempt_id):
            self._out.append(Released(entry.start.attempt_id))
