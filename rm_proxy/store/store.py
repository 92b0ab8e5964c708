"""The store: decisions and their outcomes, in SQLite (WAL) or PostgreSQL, by SQLAlchemy.

`Store` opens, migrates, writes and prunes; `rm_proxy.store.queries` reads. Writing the same rows again changes nothing,
so that a batch whose commit was lost can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    delete,
    or_,
    select,
    tuple_,
)
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError

from quicksilver.common.process.masking import hide
from quicksilver.common.store.engine import checked_url, engine_of, short_reason
from quicksilver.common.store.sqlite_file import StoreFile
from quicksilver.common.store.versions import CannotMigrateError, NewerTablesError
from rm_proxy.store.insertions import insert
from rm_proxy.store.row_values import TABLES, values_by_table
from rm_proxy.store.rows import Row
from rm_proxy.store.tables import (
    AppRow,
    ChangeRow,
    Completion,
    DecisionRow,
    Duration,
    Event,
    GrantRow,
    NodeRow,
    NodeUseRow,
)
from rm_proxy.store.versions import is_newest
from rm_proxy.store.writer import BadRowError, StoreUnavailableError

_PRUNE_ROWS: Final = 5_000
_UNFINISHED_S: Final = 90 * 86400.0


class Store:
    """One database. Thread-safe; nothing is connected before `open`."""

    def __init__(self, url: str) -> None:
        """Check `url`: SQLite or PostgreSQL, e.g. sqlite:////var/lib/quicksilver/proxy.db, postgresql://u:p@host/db.

        Raises SettingsError when it is neither, or when SQLite's directory is missing or not writable.
        """
        self.url = checked_url(url, "proxy.store_url")
        hide(self.url.password or "")
        sqlite_file = self.url.get_backend_name() == "sqlite"
        self._file = StoreFile(Path(str(self.url.database))) if sqlite_file else None
        self.engine = engine_of(self.url, self._file)

    @property
    def name(self) -> str:
        """The URL without its password, for logs and errors."""
        return self.url.render_as_string(hide_password=True)

    def open(self) -> None:
        """Create or migrate the tables.

        Raises StoreUnavailableError when the database cannot be reached or its tables are those of a newer version.
        """
        try:
            if self._file is not None:
                self.engine.dispose()  # close connections to a deleted file
                self._file.create()
            with self.engine.begin() as connection:
                if not is_newest(connection):
                    from rm_proxy.store.migrations import MIGRATIONS  # it takes long to import

                    MIGRATIONS.upgrade(connection)
            if self._file is not None:
                self._file.opened()
        except (NewerTablesError, CannotMigrateError) as error:
            raise StoreUnavailableError(error.message, place=self.name, remedy=error.remedy) from error
        except (SQLAlchemyError, OSError) as error:
            raise self._failed(error) from error

    def write(self, rows: Sequence[Row]) -> None:
        """Write `rows` in one transaction; applications and nodes are updated, all else is kept as first written.

        Raises StoreUnavailableError (try again later) or BadRowError (one of the rows does not go in).
        """
        try:
            by_table = values_by_table(rows)
            if self._file is not None:
                self._file.check()
            with self.engine.begin() as connection:
                for name, values in by_table.items():
                    insert(connection, name, values)
        except (DataError, IntegrityError, OverflowError, ValueError, TypeError) as error:
            raise BadRowError(short_reason(error), place=self.name) from error
        except SQLAlchemyError as error:
            if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
                raise BadRowError(short_reason(error), place=self.name) from error
            raise self._failed(error) from error
        except OSError as error:
            raise self._failed(error) from error

    def prune(self, before_s: float) -> int:
        """Delete what is older than `before_s` (Unix seconds), in short transactions; return the number of rows."""
        total = 0
        try:
            for table, old in _old(before_s):
                keys = list(table.primary_key)
                oldest = select(*keys).where(old).limit(_PRUNE_ROWS)
                statement = delete(table).where(tuple_(*keys).in_(oldest))
                deleted = _PRUNE_ROWS
                while deleted == _PRUNE_ROWS:
                    with self.engine.begin() as connection:
                        deleted = connection.execute(statement).rowcount
                    total += deleted
        except SQLAlchemyError as error:
            raise self._failed(error) from error
        return total

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _failed(self, error: Exception) -> StoreUnavailableError:
        """Return `error` as ours; a file that is broken is set aside, so that the next `open` begins a new one."""
        aside = self._file.set_aside(error, time.time()) if self._file is not None else None
        if aside is None:
            return self.unavailable(error)
        self.engine.dispose()
        remedy = f"a new store begins; the broken one is kept as {aside.name}"
        return StoreUnavailableError(short_reason(error), place=self.name, remedy=remedy)

    def unavailable(self, error: Exception) -> StoreUnavailableError:
        """Return `error` as ours, with a remedy."""
        remedy = "look at the database and its disk; rows wait meanwhile"
        return StoreUnavailableError(short_reason(error), place=self.name, remedy=remedy)


def _old(before_s: float) -> list[tuple[Table, ColumnElement[bool]]]:
    unfinished_s = before_s - _UNFINISHED_S
    ended = AppRow.finished_s < before_s
    forgotten = and_(AppRow.finished_s.is_(None), AppRow.submitted_s < unfinished_s)
    return [
        (TABLES["grants"], GrantRow.granted_s < before_s),
        (TABLES["completions"], Completion.at_s < before_s),
        (TABLES["container_events"], Event.at_s < before_s),
        (TABLES["applications"], or_(ended, forgotten)),
        (TABLES["nodes"], NodeRow.last_seen_s < before_s),
        (TABLES["decisions"], DecisionRow.at_s < before_s),
        (TABLES["changes"], ChangeRow.at_s < unfinished_s),
        (TABLES["node_use"], NodeUseRow.at_s < unfinished_s),
        (TABLES["durations"], Duration.at_s < unfinished_s),
    ]
