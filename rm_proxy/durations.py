"""What job names took, kept in the store between runs of the proxy: read once in a thread, written when it changed.

Nothing is written before what was kept is read, since rows are absolute and would replace it. While the store is out
the estimator goes without; reading is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from rm_proxy.estimator import MAX_KEYS, Estimator
from rm_proxy.recorder import StoreUnavailableError
from rm_proxy.records import DurationRecord
from rm_proxy.store import Store
from rm_proxy.tables import Duration
from shell.logs import get_logger

WRITE_EVERY_S: Final = 30.0
RETRY_S: Final = 10.0
MAX_WRITTEN: Final = 1_000
"""Rows at a time, so that the recorder's queue keeps room; the others follow 30 s later."""
log = get_logger(__name__)


def kept(store: Store) -> list[DurationRecord]:
    """Return what is kept, the latest first, MAX_KEYS at most. Raises StoreUnavailableError."""
    columns = [getattr(Duration, name) for name in DurationRecord.__slots__]
    query = select(*columns).order_by(Duration.at_s.desc()).limit(MAX_KEYS)
    try:
        with Session(store.engine) as session:
            return [DurationRecord(*row) for row in session.execute(query)]
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error


class DurationKeeper:
    """Between the estimator and the store; called in the event loop, never waits.

    ready: whether the store has its tables; read: reads what was kept, in `thread`; keep: takes a row for the store.
    """

    def __init__(
        self,
        estimator: Estimator,
        thread: Executor,
        *,
        ready: Callable[[], bool],
        read: Callable[[], Sequence[DurationRecord]],
        keep: Callable[[DurationRecord], None],
    ) -> None:
        self._estimator, self._thread = estimator, thread
        self._ready, self._read, self._keep = ready, read, keep
        self._reading: Future[Sequence[DurationRecord]] | None = None
        self._loaded = self._failed = False
        self._next_s = 0.0

    def round(self, now_s: float) -> None:
        """Do what is due: take in what was read, read again, or write what changed."""
        if self._loaded:
            if now_s >= self._next_s:
                self._next_s = now_s + WRITE_EVERY_S
                self._write(MAX_WRITTEN, now_s)
        elif self._reading is not None:
            if self._reading.done():
                self._take_in(self._reading, now_s)
                self._reading = None
        elif now_s >= self._next_s and self._ready():
            self._reading = self._thread.submit(self._read)

    def close(self, now_s: float) -> None:
        """Write all that changed."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._loaded:
            self._write(MAX_KEYS, now_s)

    def _take_in(self, reading: Future[Sequence[DurationRecord]], now_s: float) -> None:
        try:
            records = reading.result()
        except StoreUnavailableError as error:
            self._next_s = now_s + RETRY_S
            if not self._failed:
                self._failed = True
                log.warning(
                    "earlier durations cannot be read; estimates go without them until they can", why=str(error)
                )
            return
        self._estimator.restore(records)
        self._loaded, self._next_s = True, now_s + WRITE_EVERY_S
        log.info("earlier durations were read", names=len(records))

    def _write(self, most: int, now_s: float) -> None:
        for record in self._estimator.changed(most, now_s):
            self._keep(record)
