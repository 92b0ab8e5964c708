"""The store: decisions and their outcomes, in SQLite (WAL) or PostgreSQL, by SQLAlchemy.

`Store` opens, migrates, writes and prunes; `rm_proxy.store.queries` reads. Writing the same rows again changes nothing,
so that a batch whose commit was lost can be repeated.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
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
from rm_proxy.domain.records import (
    MAX_SCORES,
    AppRecord,
    ChangeRecord,
    CompletionRecord,
    DecisionRecord,
    DurationRecord,
    GrantRecord,
    UseRecord,
)
from rm_proxy.store.rows import NodeEvent, NodeSeen, Row, table_of
from rm_proxy.store.tables import (
    AppRow,
    Base,
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
from rm_proxy.store.writer import MAX_TEXT, BadRowError, StoreUnavailableError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_PRUNE_ROWS: Final = 5_000
_UNFINISHED_S: Final = 90 * 86400.0
_TABLES: Final[dict[str, Table]] = dict(Base.metadata.tables)
_KEYS: Final = {name: tuple(column.name for column in table.primary_key) for name, table in _TABLES.items()}
_UPDATED: Final[dict[str, tuple[str, ...]]] = {
    "applications": (),
    "nodes": ("first_seen_s",),
    "node_use": (),
    "durations": (),
}
"""Tables whose rows are updated, and the columns that are kept nevertheless."""


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
            by_table = _by_table(rows)
            if self._file is not None:
                self._file.check()
            with self.engine.begin() as connection:
                for name, values in by_table.items():
                    _insert(connection, _TABLES[name], values)
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


def _by_table(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return the values of each table; of rows with one key the last application or node, the first of all else."""
    tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        name, values = table_of(row), _values(row)
        key = tuple(values[column] for column in _KEYS[name])
        if name in _UPDATED or key not in tables[name]:
            tables[name][key] = values
    return {name: list(keyed.values()) for name, keyed in tables.items()}


def _insert(connection: Connection, table: Table, values: list[dict[str, Any]]) -> None:
    """Insert; a row that is there already is updated where `_UPDATED` says so, else left alone."""
    connection.execute(_insertion(connection.dialect.name, table.name), values)


@cache
def _insertion(dialect: str, name: str) -> postgresql.Insert | sqlite.Insert:
    table, keep = _TABLES[name], _UPDATED.get(name)
    statement: postgresql.Insert | sqlite.Insert
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert  # much to import for most stores, SQLite

        statement = PostgresqlInsert(table)
    else:
        from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

        statement = SqliteInsert(table)
    if keep is None:
        return statement.on_conflict_do_nothing()
    keys = [column.name for column in table.primary_key]
    changed = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in (*keys, *keep)}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


_FIELDS: Final[dict[type[Any], tuple[str, ...]]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (
        GrantRecord,
        AppRecord,
        CompletionRecord,
        DecisionRecord,
        ChangeRecord,
        UseRecord,
        DurationRecord,
    )
}
"""By record: the names of its fields."""


def _values(row: Row) -> dict[str, Any]:
    match row:
        case GrantRecord():
            values = _plain(row) | {"memory_mb": row.resources.memory_mb, "vcores": row.resources.vcores}
            values["scores"] = _scores(row.scores)
            del values["resources"]
        case AppRecord():
            values = _plain(row) | {"tags": list(row.tags)}
        case CompletionRecord() | ChangeRecord() | UseRecord() | DurationRecord():
            values = _plain(row)
        case DecisionRecord():
            values = _plain(row) | {"scores": _scores(row.scores)}
        case NodeEvent():
            values = row.event.model_dump(mode="json") | {"node_id": row.node_id, "boot": row.boot}
        case NodeSeen():
            values = {name: getattr(row, name) for name in ("id", "host", "rack", "label")}
            values |= {"memory_mb": row.capacity.memory_mb, "vcores": row.capacity.vcores}
            values |= {"first_seen_s": row.at_s, "last_seen_s": row.at_s}
    return {name: _clean(value) if isinstance(value, str) else value for name, value in values.items()}


def _scores(scores: Sequence[tuple[str, float]]) -> list[list[Any]]:
    return [[node, score if math.isfinite(score) else None] for node, score in scores[:MAX_SCORES]]


def _plain(
    row: GrantRecord | AppRecord | CompletionRecord | DecisionRecord | ChangeRecord | UseRecord | DurationRecord,
) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _FIELDS[type(row)]}


def _clean(text: str) -> str:
    """Return `text` as every database takes it: plain str, bounded, without NUL and lone surrogates."""
    if type(text) is str and len(text) <= MAX_TEXT and text.isascii() and "\0" not in text:
        return text  # nearly always
    return str(text)[:MAX_TEXT].replace("\0", "").encode("utf-8", "replace").decode()


def _old(before_s: float) -> list[tuple[Table, ColumnElement[bool]]]:
    unfinished_s = before_s - _UNFINISHED_S
    ended = AppRow.finished_s < before_s
    forgotten = and_(AppRow.finished_s.is_(None), AppRow.submitted_s < unfinished_s)
    return [
        (_TABLES["grants"], GrantRow.granted_s < before_s),
        (_TABLES["completions"], Completion.at_s < before_s),
        (_TABLES["container_events"], Event.at_s < before_s),
        (_TABLES["applications"], or_(ended, forgotten)),
        (_TABLES["nodes"], NodeRow.last_seen_s < before_s),
        (_TABLES["decisions"], DecisionRow.at_s < before_s),
        (_TABLES["changes"], ChangeRow.at_s < unfinished_s),
        (_TABLES["node_use"], NodeUseRow.at_s < unfinished_s),
        (_TABLES["durations"], Duration.at_s < unfinished_s),
    ]
