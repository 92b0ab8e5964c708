"""Stores learned state of the proxy's parts between its runs: read once in a thread, written when it changed.

Nothing is written before the stored rows are read, since rows are absolute and would replace them. While the store is
out the machine works without them; reading is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from concurrent.futures import Executor, Future
from typing import Final, Generic, Protocol, TypeVar

from quicksilver.common.process.logs import get_logger
from rm_proxy.store.rows import Row
from rm_proxy.store.writer import StoreUnavailableError

WRITE_EVERY_S: Final = 30.0
RETRY_S: Final = 10.0
MAX_WRITTEN: Final = 1_000
"""Rows at a time, so that the writer's queue keeps room; the others follow 30 s later."""
log = get_logger(__name__)
K = TypeVar("K", bound=Sized)
L = TypeVar("L", bound=Sized, contravariant=True)


class Learner(Protocol[L]):
    """A part that learns."""

    def restore(self, records: L) -> None:
        """Apply what was stored."""

    def changed(self, limit: int, now_s: float) -> Iterable[Row]:
        """Return rows of what changed since the last call, at most `limit`."""


class LearnedState(Generic[K]):
    """Connects a part that learns with the store; called in the event loop, never waits.

    name: for the log; ready: whether the store has its tables; read: reads what was kept, in `thread`; keep: takes a
    row for the store.
    """

    def __init__(
        self,
        name: str,
        learner: Learner[K],
        thread: Executor,
        *,
        ready: Callable[[], bool],
        read: Callable[[], K],
        keep: Callable[[Row], None],
    ) -> None:
        self._name, self._learner, self._thread = name, learner, thread
        self._ready, self._read, self._keep = ready, read, keep
        self._reading: Future[K] | None = None
        self._loaded = self._failed = False
        self._next_s = 0.0

    def round(self, now_s: float) -> None:
        """Do due work: apply rows that were read, read again, or write changes."""
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

    def close(self, now_s: float, limit: int = 20_000) -> None:
        """Write all changes, but no more than `limit` rows."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._loaded:
            self._write(limit, now_s)

    def _take_in(self, reading: Future[K], now_s: float) -> None:
        try:
            records = reading.result()
        except StoreUnavailableError as error:
            self._next_s = now_s + RETRY_S
            if not self._failed:
                self._failed = True
                log.warning(f"{self._name} cannot be read; the proxy works without them until they can", why=str(error))
            return
        self._learner.restore(records)
        self._loaded, self._next_s = True, now_s + WRITE_EVERY_S
        log.info(f"{self._name} were read", count=len(records))

    def _write(self, limit: int, now_s: float) -> None:
        for row in self._learner.changed(limit, now_s):
            self._keep(row)
