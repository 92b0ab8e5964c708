"""Restores the attempts of an earlier process of the proxy, and messages that sidecars may not have received."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from policies.model import Kind
from quicksilver.common.messages import ContainerState, Report
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.delivery.grant_messages import announcement, grant_terms
from rm_proxy.attempt.effects import Announce, Effect
from rm_proxy.attempt.snapshot import Note, Snapshot
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.domain.ids import app_of_container, is_earlier
from rm_proxy.domain.records import AppRecord

GONE: Final = "its application holds it no longer"


class AttemptRestore:
    """Journals and restores the attempts of the coordinator.

    known: handles an application's record.
    """

    def __init__(
        self,
        world: ClusterView,
        attempts: AttemptIndex,
        known: Callable[[AppRecord], object],
    ) -> None:
        self._world, self._attempts, self._known = world, attempts, known
        self._restored: dict[str, Attempt] = {}

    def restore(self, attempt_id: str, snapshot: Snapshot) -> None:
        """Take an attempt over. Raises KeyError, TypeError or ValueError when `snapshot` is broken."""
        if snapshot.app is not None:
            self._known(AppRecord(**snapshot.app | {"tags": tuple(snapshot.app["tags"])}))
        attempt = Attempt(attempt_id, self._world)
        attempt.restore(snapshot)
        self._attempts[attempt_id] = self._restored[attempt_id] = attempt
        of_app = self._attempts.by_app.setdefault(attempt.app_id, [])
        of_app.append(attempt)
        end_earlier(of_app)
        for live in attempt.live:
            if live.promoted_s is not None:
                self._world.reports.promoted(live.node_id, live.id)

    def renew(self, attempt_id: str) -> bool:
        """Take an attempt over from itself, after a fault of our own: it registers and asks anew.

        Only journaled state of its machine is trusted. Returns whether that is enough; else the attempt stays
        unchanged. Raises the exceptions of the broken machine.
        """
        broken = self._attempts[attempt_id]
        note = broken.whole_note()
        if note is None or not note.get("registered"):
            return False
        snapshot = Snapshot()
        snapshot.take(note)
        restored = Attempt(attempt_id, self._world)
        restored.restore(snapshot)
        self._attempts[attempt_id] = restored
        of_app = self._attempts.by_app[restored.app_id]
        of_app[of_app.index(broken)] = restored
        broken.table.close()
        return True

    def forget(self) -> None:
        """Forget the restored attempts: another proxy continues them."""
        self._restored.clear()

    def notes(self) -> Iterator[tuple[str, Note]]:
        """Yield the notes to journal of all attempts that changed."""
        self._attempts.unjournaled.take()
        for attempt in self._attempts.values():
            note = attempt.take_note()
            if note is not None:
                yield attempt.id, note

    def touched_notes(self) -> Iterator[tuple[str, Note]]:
        """Yield the notes to journal of attempts that sidecars reported on since the last call."""
        for attempt in self._attempts.unjournaled.take():
            note = attempt.take_note()
            if note is not None:
                yield attempt.id, note

    def due_notes(self, now_s: float) -> Iterator[tuple[str, Note]]:
        """Yield those notes if they are due: before the answer to a report is sent."""
        return self.touched_notes() if self._attempts.unjournaled.due(now_s) else iter(())

    def journal_within(self, delay_s: float) -> None:
        """Have what containers' starts and ends change journaled not at once, but within a time."""
        self._attempts.unjournaled.delay_s = delay_s

    def whole_notes(self) -> Iterator[tuple[str, Note]]:
        """Yield the whole state of each attempt that lives."""
        for attempt in self._attempts.values():
            note = attempt.whole_note()
            if note is not None:
                yield attempt.id, note

    def announce_again(self, report: Report, now_s: float) -> list[Effect]:
        """Return, at a node's first report, the grants that its sidecar neither holds nor runs: it may not know."""
        announcements: list[Effect] = []
        there = {c.container_id for c in report.containers}
        self._restored = {attempt.id: attempt for attempt in self._restored.values() if not attempt.finished}
        for attempt in self._restored.values():
            terms = grant_terms(self._world, attempt.app_id, now_s)
            if terms is None:
                continue
            for live in attempt.live:
                waits = live.kind is Kind.QUEUEABLE and not live.is_started and not live.released
                if waits and live.node_id == report.node_id and live.id not in there:
                    announcements.append(Announce(live.node_id, announcement(live, attempt.id, terms)))
        return announcements

    def forgotten(self, report: Report) -> dict[str, str]:
        """Return the starts that a sidecar holds although they ended, with why: an order to drop them was lost."""
        drops = {}
        for container in report.containers:
            if container.state is ContainerState.WAITING and container.kind == Kind.QUEUEABLE.value:
                attempts = self._attempts.by_app.get(app_of_container(container.container_id), ())
                if _over(container.container_id, attempts):
                    drops[container.container_id] = GONE
        return drops


def end_earlier(attempts: Sequence[Attempt]) -> list[Attempt]:
    """End those attempts of an application that are not its newest; returns them."""
    earlier = [a for a in attempts if any(is_earlier(a.id, peer.id) for peer in attempts)]
    for attempt in earlier:
        attempt.end("a newer attempt of the application started")
    return earlier


def _over(container_id: str, attempts: Sequence[Attempt]) -> bool:
    """Return whether a container is known to have ended for its application."""
    if not attempts or any(container_id in attempt.live for attempt in attempts):
        return False
    return all(attempt.finished for attempt in attempts) or any(a.containers.ended(container_id) for a in attempts)
