"""What survives a crash of the proxy, and how the next process continues with it.

- Running applications: each change of an attempt is journaled before the bytes leave that depend on it. This module
  decides when; `attempt/snapshot.py` defines the notes, `attempt_journal.py` writes them, and
  `coordinator/attempt_restore.py` makes attempts of them. Asks are not journaled: the application master repeats them,
  as after a restart of the ResourceManager (`attempt/registration/resync.py`).
- Durations, the nodes' use and the order of bypass: rows of the database (`store/learned_state.py`).
- Containers that wait at nodes: their sidecars report them (`coordinator/reports/sidecar_reports.py`).
- Listening sockets: systemd holds a copy (`quicksilver/common/process/fdstore.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from google.protobuf.message import DecodeError

from quicksilver.common.process.logs import get_logger
from rm_proxy.attempt.snapshot import Note
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal

EVENTS_S: Final = 1.0
"""Longest time until a container's start or end is journaled, and acknowledged to its sidecar."""
log = get_logger(__name__)


class Recovery:
    """Journals the coordinator's attempts as they change, and restores them when the proxy starts."""

    def __init__(self, journal: AttemptJournal, coordinator: Coordinator, metrics: ProxyMetrics) -> None:
        self._journal, self._coordinator, self._metrics = journal, coordinator, metrics
        coordinator.takeover.journal_within(EVENTS_S)
        self.restored = 0
        """Attempts with which this process continued."""

    def recall(self, now_s: float) -> None:
        """Restore the attempts of the process before. Raises QuicksilverError when the file cannot be used."""
        for attempt_id, snapshot in self._journal.open().items():
            try:
                self._coordinator.takeover.restore(attempt_id, snapshot)
            except (KeyError, TypeError, ValueError, DecodeError) as error:
                log.error("an application cannot be restored", attempt=attempt_id, why=repr(error))
                self._journal.write(attempt_id, {"over": True})
        self.restored = count = len(self._coordinator.attempts)
        self._metrics.taken_over.set(count)
        if count:
            log.info("continuing with the applications of the process before", attempts=count)
        self._rewrite(now_s)

    def write_all(self) -> None:
        """Journal the changes of all attempts."""
        self._write(self._coordinator.takeover.notes())

    def write_touched(self) -> None:
        """Journal the changes of the attempts that reports of nodes concerned."""
        self._write(self._coordinator.takeover.touched_notes())

    def write_due(self, now_s: float) -> None:
        """Journal them if they are due, before the answer to a report: a sidecar forgets acknowledged events."""
        self._write(self._coordinator.takeover.due_notes(now_s))

    def restore(self, attempt_id: str) -> None:
        """Have an attempt over which the proxy's own code failed register anew, as after a restart of the proxy."""
        try:
            self.write_all()
            renewed = self._coordinator.broken(attempt_id, time.time())
        except Exception:
            log.exception("an attempt cannot be made to register anew", attempt=attempt_id)
            return
        if renewed:
            log.warning("an application master has to register anew, after a fault of the proxy", attempt=attempt_id)

    def round(self, now_s: float) -> None:
        """Journal all changes, and rewrite the file when it is due."""
        self.write_all()
        if self._journal.due(now_s):
            self._rewrite(now_s)

    def close(self) -> None:
        """Journal all changes and close the file in order."""
        self.write_all()
        self._journal.close()

    def _write(self, notes: Iterable[tuple[str, Note]]) -> None:
        for attempt_id, note in notes:
            self._journal.write(attempt_id, note)

    def _rewrite(self, now_s: float) -> None:
        self._journal.compact(self._coordinator.takeover.whole_notes(), now_s)
