"""Writes records to the store: a bounded queue, and one thread that writes batches.

Scheduling never waits for the store. A row that finds the queue full is dropped and counted; while the store fails, its
rows wait in the queue, the outage is logged once, and writing continues when the store comes back.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from policies.model import NodeView
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.messages import ContainerEvent
from quicksilver.common.process.logs import get_logger
from rm_proxy.domain.records import AppRecord, ChangeRecord, CompletionRecord, DecisionRecord, GrantRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store.rows import NodeEvent, NodeSeen, Row, table_of

MAX_TEXT: Final = 10_000
"""Characters of a text that are kept."""
_IDLE_S: Final = 0.5
_LINGER_S: Final = 0.5
"""How long a batch that is not full waits for more rows: a transaction costs as much as dozens of them."""
_MAX_FAULTS: Final = 3
_RETRY_S: Final = (0.5, 1.0, 2.0, 5.0)
_PRUNE_EVERY_S: Final = 3600.0
log = get_logger(__name__)


class StoreUnavailableError(QuicksilverError):
    """The store cannot be reached or takes nothing now (disk full, locked)."""

    retriable = True


class BadRowError(QuicksilverError):
    """The store refuses these rows for their content; writing them again would fail again."""


class RowStore(Protocol):
    """The writer's target."""

    def open(self) -> None:
        """Make the store ready (create and migrate its tables). Raises StoreUnavailableError."""

    def write(self, rows: Sequence[Row]) -> None:
        """Write all rows in one transaction, or none. Raises StoreUnavailableError or BadRowError."""

    def prune(self, before_s: float) -> int:
        """Delete rows older than `before_s` (Unix seconds), return how many. Raises StoreUnavailableError."""


class Writer:
    """Takes rows from any thread and returns at once; see the module."""

    def __init__(
        self,
        store: RowStore,
        metrics: ProxyMetrics,
        *,
        queue_rows: int = 20_000,
        batch_rows: int = 500,
        keep_s: float = 14 * 86400.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._metrics, self._batch, self._keep_s, self._now = store, metrics, batch_rows, keep_s, now
        self._queue: deque[Row] = deque()
        self._queue_rows = queue_rows
        self._in_hand = 0
        """Rows that the thread writes."""
        self._sleeps = False
        """Whether the thread waits for `_wake`: a lock and a signal for each row would take longer than the row."""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._opened = False
        self._full_since: float | None = None
        self._faults = 0
        """Of the proxy's own, in a row."""
        self._dropped = 0
        """Rows that found the queue full since it was full first."""
        self._out_since = 0.0
        self._next_prune_s = 0.0
        self.outage: str | None = None
        """Why the store accepts no rows now; None while it accepts them."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        """Start the writing thread; the store is opened there, so that an outage does not hinder the start."""
        self._thread.start()

    def grant(self, record: GrantRecord) -> None:
        """Store a delivered container."""
        self._put(record)

    def completion(self, record: CompletionRecord) -> None:
        """Store a container's end."""
        if len(record.diagnostics) > MAX_TEXT:
            record = replace(record, diagnostics=record.diagnostics[:MAX_TEXT])
        self._put(record)

    def application(self, record: AppRecord) -> None:
        """Store an application, or its changes."""
        self._put(record)

    def decision(self, record: DecisionRecord) -> None:
        """Store a decision."""
        self._put(record)

    def change(self, record: ChangeRecord) -> None:
        """Store a change of the settings."""
        self._put(record)

    def keep(self, row: Row) -> None:
        """Store any other row."""
        self._put(row)

    def event(self, node_id: str, boot: str, event: ContainerEvent) -> None:
        """Store a sidecar's event; the same (node, boot, seq) is stored once."""
        if len(event.reason) > MAX_TEXT:
            event = event.model_copy(update={"reason": event.reason[:MAX_TEXT]})
        self._put(NodeEvent(node_id, boot, event))

    def node(self, view: NodeView, at_s: float) -> None:
        """Store that a node was there."""
        self._put(NodeSeen(view.id, view.host, view.rack, view.label, view.capacity, at_s))

    @property
    def opened(self) -> bool:
        """Whether the store is open, with its tables."""
        return self._opened

    @property
    def backlog(self) -> int:
        """Rows that wait."""
        return len(self._queue)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what was recorded so far is written; False when it was not within `timeout_s`."""
        end = time.monotonic() + timeout_s
        while self._queue or self._in_hand:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        return True

    def close(self, timeout_s: float = 5.0) -> None:
        """Write the waiting rows within `timeout_s`; the rest is counted as dropped and logged."""
        self._deadline = time.monotonic() + timeout_s
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s + 1.0)
        rows = len(self._queue) + self._in_hand
        if rows:
            self._metrics.store_dropped.labels("closed").inc(rows)
            log.warning("rows were not written to the store before the end", rows=rows, outage=self.outage)

    def _put(self, row: Row) -> None:
        rows = self._queue
        if len(rows) < self._queue_rows:
            rows.append(row)
            if self._sleeps:
                self._wake.set()
            return
        self._metrics.store_dropped.labels("full").inc()
        self._dropped += 1
        if self._full_since is None:
            self._full_since = self._now()
            log.warning("the queue of the store is full, rows are dropped", rows=self._queue_rows)

    def _run(self) -> None:
        rows: list[Row] = []
        failures = 0
        while True:
            rows = rows or self._take()
            if not rows and self._stop.is_set():
                return
            if self._succeeds(partial(self._write, rows)):
                rows, failures, self._faults = [], 0, 0
                self._succeeds(self._prune_when_due)
                continue
            if self._faults > _MAX_FAULTS:
                self._give_up(rows)
                rows, self._faults = [], 0
            if self._stop.is_set() and time.monotonic() >= self._deadline:
                return
            self._pause(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
            failures += 1

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt, shorter while closing."""
        if self._stop.wait(seconds):
            time.sleep(max(0.0, min(0.2, self._deadline - time.monotonic())))

    def _take(self) -> list[Row]:
        """Wait for rows and gather a batch; empty when none came within half a second."""
        self._sleeps = True
        if not self._queue:  # else `_put` may have looked before
            self._wake.wait(_IDLE_S)
        self._sleeps = False
        self._wake.clear()
        if not self._queue:
            return []
        if len(self._queue) < self._batch:
            self._stop.wait(_LINGER_S)
        self._in_hand = min(self._batch, len(self._queue))
        rows = [self._queue.popleft() for _ in range(self._in_hand)]
        self._metrics.store_backlog.set(len(self._queue))
        return rows

    def _succeeds(self, action: Callable[[], None]) -> bool:
        """Open the store when it is not, then act; False when the store is out."""
        try:
            if not self._opened:
                self._store.open()
                self._opened = True
            action()
        except StoreUnavailableError as error:
            self._opened = False
            self._went_out(error)
            return False
        except Exception as error:
            self._faults += 1
            log.exception("a fault of the proxy while it wrote to the store")
            self._went_out(StoreUnavailableError(f"{type(error).__name__}: {error}"))
            return False
        self._came_back()
        return True

    def _give_up(self, rows: list[Row]) -> None:
        """Drop a batch whose writing fails again and again, though the store works."""
        self._metrics.store_dropped.labels("fault").inc(len(rows))
        log.error("rows were not written to the store: each attempt raised a fault", rows=len(rows))
        self._in_hand = 0

    def _write(self, rows: list[Row]) -> None:
        """Write a batch; when it is refused for a row's content, one by one without the bad ones."""
        if not rows:
            return
        try:
            self._store.write(rows)
            written = rows
        except BadRowError:
            written = self._write_singly(rows)
        for table, count in Counter(map(table_of, written)).items():
            self._metrics.store_rows.labels(table).inc(count)
        self._in_hand = 0

    def _write_singly(self, rows: list[Row]) -> list[Row]:
        written = []
        for row in rows:
            try:
                self._store.write([row])
                written.append(row)
            except BadRowError as error:
                self._metrics.store_dropped.labels("refused").inc()
                log.warning("the store refused a row", table=table_of(row), why=str(error))
        return written

    def _prune_when_due(self) -> None:
        now_s = self._now()
        if now_s < self._next_prune_s:
            return
        deleted = self._store.prune(now_s - self._keep_s)
        self._next_prune_s = now_s + _PRUNE_EVERY_S
        if deleted:
            log.info("old rows were deleted from the store", rows=deleted)

    def _went_out(self, error: StoreUnavailableError) -> None:
        if self.outage is None:
            log.error("the store accepts no rows; scheduling continues, rows wait", why=str(error))
            self._out_since = self._now()
        self.outage = str(error)
        self._metrics.store_up.set(0)
        self._metrics.store_backlog.set(len(self._queue))

    def _came_back(self) -> None:
        if self.outage is not None:
            out_s = round(self._now() - self._out_since, 1)
            log.info("the store accepts rows again", out_s=out_s, waiting=len(self._queue) + self._in_hand)
        if self._full_since is not None and len(self._queue) < self._queue_rows:
            full_s, lost = round(self._now() - self._full_since, 1), self._dropped
            self._full_since, self._dropped = None, 0
            log.warning("the queue of the store has room again", full_s=full_s, dropped=lost)
        self.outage = None
        self._metrics.store_up.set(1)
