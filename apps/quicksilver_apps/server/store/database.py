"""The database of the app server: opened, migrated, written by one thread that commits what came meanwhile together."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.masking import hide
from quicksilver.common.store.engine import checked_url, engine_of, short_reason
from quicksilver.common.store.sqlite_file import StoreFile
from quicksilver.common.store.versions import CannotMigrateError, NewerTablesError, has_version
from quicksilver_apps.server.store.tables import NEWEST

T = TypeVar("T")
Work = Callable[[Connection], Any]
_TOGETHER: Final = 100
"""Writes of one commit."""
_PLACE: Final = "app_server.store_url"


class DatabaseUnavailableError(QuicksilverError):
    """The database does not answer, or does not take what is written."""

    retriable = True


class Database:
    """One database. Reads run in threads, writes one after the other in a thread of their own."""

    def __init__(self, url: str) -> None:
        """Check `url`. Raises SettingsError when it is neither of SQLite nor of PostgreSQL."""
        self.url = checked_url(url, _PLACE)
        hide(self.url.password or "")
        sqlite = self.url.get_backend_name() == "sqlite"
        self._file = StoreFile(Path(str(self.url.database))) if sqlite else None
        self.engine = engine_of(self.url, self._file, synchronous="FULL")
        self._works: queue.Queue[tuple[Work, Future[Any]] | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The URL without its password, for logs and errors."""
        return self.url.render_as_string(hide_password=True)

    def open(self) -> None:
        """Create or migrate the tables. Raises StoreUnavailableError."""
        try:
            if self._file is not None:
                self._file.create()
            with self.engine.begin() as connection:
                if not has_version(connection, NEWEST):
                    from quicksilver_apps.server.store.migrations import MIGRATIONS  # it takes long to import

                    MIGRATIONS.upgrade(connection)
            if self._file is not None:
                self._file.opened()
        except (NewerTablesError, CannotMigrateError) as error:
            raise DatabaseUnavailableError(error.message, place=self.name, remedy=error.remedy) from error
        except (SQLAlchemyError, OSError) as error:
            raise self._failed(error) from error
        self._thread = threading.Thread(target=self._write_all, name="store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish all writes and close the connections."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._works.put(None)
            thread.join()
        self.engine.dispose()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads. Raises StoreUnavailableError."""
        return await asyncio.to_thread(self._read, work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns, once its changes are committed; what raises changes nothing.

        Raises StoreUnavailableError, and what `work` raises.
        """
        future: Future[T] = Future()
        self._works.put((work, future))
        return await asyncio.wrap_future(future)

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self.engine.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise self._failed(error) from error

    def _write_all(self) -> None:
        while (first := self._works.get()) is not None:
            batch = [first]
            ends = False
            while len(batch) < _TOGETHER and not self._works.empty():
                more = self._works.get()
                if more is None:
                    ends = True
                    break
                batch.append(more)
            self._commit(batch)
            if ends:
                return

    def _commit(self, batch: list[tuple[Work, Future[Any]]]) -> None:
        """Do all in one transaction, each in a savepoint; callers hear of it once it is committed."""
        done: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            if self._file is not None:
                self._file.check()
            with self.engine.begin() as connection:
                for work, future in batch:
                    done.append((future, *_within(connection, work)))
        except (SQLAlchemyError, OSError) as error:
            failed = self._failed(error)
            done = [(future, None, failed) for _, future in batch]
        for future, result, raised in done:
            if not future.set_running_or_notify_cancel():
                continue  # the caller is gone
            if raised is None:
                future.set_result(result)
            else:
                failure = self._failed(raised) if isinstance(raised, SQLAlchemyError) else raised
                future.set_exception(failure)

    def _failed(self, error: BaseException) -> DatabaseUnavailableError:
        reason = short_reason(error) if isinstance(error, Exception) else str(error)
        return DatabaseUnavailableError(reason, place=self.name, remedy="look at the database and its disk")


def _within(connection: Connection, work: Work) -> tuple[Any, BaseException | None]:
    """Return the result of one work, or what it raised after its changes are undone."""
    point = connection.begin_nested()
    try:
        result = work(connection)
        point.commit()
    except Exception as error:  # noqa: BLE001 - it goes to the caller who waits for this work
        point.rollback()
        return None, error
    return result, None
