"""Journals attempts as they change, and restores them after a restart of the proxy."""

from __future__ import annotations

import time
from pathlib import Path

from quicksilver.common.process.logs import get_logger
from rm_proxy.attempt.snapshot import Note
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal

log = get_logger(__name__)


class StateJournal:
    """Connects the coordinator with the journal's file."""

    def __init__(self, path: Path, coordinator: Coordinator, metrics: ProxyMetrics) -> None:
        self._coordinator, self._metrics = coordinator, metrics
        self.journal = AttemptJournal(path, metrics)

    def recall(self, now_s: float) -> None:
        """Restore the attempts of the process before. Raises QuicksilverError when the file cannot be used."""
        for attempt_id, kept in self.journal.open().items():
            try:
                self._coordinator.takeover.restore(attempt_id, kept)
            except (KeyError, TypeError, ValueError) as error:
                log.error("an application cannot be restored", attempt=attempt_id, why=repr(error))
        count = len(self._coordinator.attempts)
        self._metrics.taken_over.set(count)
        if count:
            log.info("continuing with the applications of the process before", attempts=count)
        self.journal.compact(self._coordinator.takeover.whole_notes(), now_s)

    def keep(self, attempt_id: str, note: Note) -> None:
        """Write one note."""
        self.journal.write(attempt_id, note)

    def keep_all(self) -> None:
        """Write what changed of all attempts."""
        for attempt_id, note in self._coordinator.takeover.notes():
            self.journal.write(attempt_id, note)

    def keep_touched(self) -> None:
        """Write what changed of the attempts that reports of nodes concerned."""
        for attempt_id, note in self._coordinator.takeover.touched_notes():
            self.journal.write(attempt_id, note)

    def restore(self, attempt_id: str) -> None:
        """Have an attempt over which the proxy's own code failed register anew, as after a restart of the proxy."""
        try:
            self.keep_all()
            renewed = self._coordinator.broken(attempt_id, time.time())
        except Exception:
            log.exception("an attempt cannot be made to register anew", attempt=attempt_id)
            return
        if renewed:
            log.warning("an application master has to register anew, after a fault of the proxy", attempt=attempt_id)

    def round(self, now_s: float) -> None:
        """Write what changed, and rewrite the file when it is due."""
        self.keep_all()
        if self.journal.due(now_s):
            self.journal.compact(self._coordinator.takeover.whole_notes(), now_s)

    def close(self) -> None:
        """Close the file in order."""
        self.keep_all()
        self.journal.close()
