"""Insertion of rows: a row that is there already is updated where its table is one of `UPDATED`, else left alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rm_proxy.store.row_values import LISTS, TABLES, UPDATED, Values

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_VARIABLES: Final = 999
"""Values that a statement may have in each SQLite; later ones take more."""
_ROWS: Final = 32
"""Rows of a statement at most; a power of 2."""
_COLUMNS: Final = {name: tuple(column.name for column in table.columns) for name, table in TABLES.items()}


def insert(connection: Connection, table: str, rows: Sequence[Values]) -> None:
    """Insert rows of a table."""
    if connection.dialect.name == "sqlite":
        _insert_in_sqlite(connection, table, rows)
    else:
        names = _COLUMNS[table]
        connection.execute(_insertion("postgresql", table), [dict(zip(names, row, strict=True)) for row in rows])


def _insert_in_sqlite(connection: Connection, table: str, rows: Sequence[Values]) -> None:
    """Insert rows by as few statements as are needed.

    SQLite runs each without the interpreter's lock: with one row in each the event loop and this thread would take
    turns for each row. They go to the driver itself, since SQLAlchemy's path takes as long as SQLite; errors are its.
    """
    size, at, driver = _ROWS, 0, connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    while size * len(_COLUMNS[table]) > _VARIABLES:
        size //= 2
    for place in LISTS[table]:
        rows = [(*row[:place], json.dumps(row[place]), *row[place + 1 :]) for row in rows]
    while at < len(rows):
        while size > len(rows) - at:
            size //= 2
        text, values = _sqlite_text(table, size), tuple(chain.from_iterable(rows[at : at + size]))
        try:
            driver.execute(text, values)
        except sqlite3.Error as error:
            raise DBAPIError.instance(text, values, error, sqlite3.Error, hide_parameters=True) from error
        at += size


@cache
def _sqlite_text(table: str, size: int) -> str:
    """Return the statement that inserts `size` rows, values in the order of the columns."""
    from sqlalchemy.dialects import sqlite

    names = _COLUMNS[table]
    text = str(_insertion("sqlite", table).compile(dialect=sqlite.dialect(), column_keys=names))
    row = f"({', '.join('?' * len(names))})"
    assert f"({', '.join(names)}) VALUES {row}" in text.replace('"', ""), text
    return text.replace(row, ", ".join([row] * size), 1)


@cache
def _insertion(dialect: str, name: str) -> postgresql.Insert | sqlite.Insert:
    table, keep = TABLES[name], UPDATED.get(name)
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
