"""Engines of databases: SQLite in WAL mode, or PostgreSQL with bounds for its silence, by SQLAlchemy."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from quicksilver.common.errors import SettingsError
from quicksilver.common.extras import missing
from quicksilver.common.store.sqlite_file import StoreFile

if TYPE_CHECKING:
    import psycopg  # SQLAlchemy loads it for a store that needs it

_PATIENCE: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""With it a silent PostgreSQL, or a lock held elsewhere, counts as an outage and does not block writing for ever."""
_SCHEMES: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def checked_url(url: str, place: str) -> URL:
    """Return a database's URL with its driver. Raises SettingsError naming `place`, the setting."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        remedy = "write sqlite:////path/to/proxy.db or postgresql://user:password@host/database"
        raise SettingsError("not a database URL", place=place, remedy=remedy) from None
    driver = _SCHEMES.get(parsed.drivername.partition("+")[0])
    if driver is None:
        remedy = "take sqlite or postgresql"
        raise SettingsError(f"{parsed.drivername!r} is not supported", place=place, remedy=remedy)
    if driver == "sqlite":
        _check_file(parsed.database, place)
    elif remedy := missing("psycopg"):
        raise SettingsError("PostgreSQL needs psycopg, which is not installed", place=place, remedy=remedy)
    if remedy := missing("alembic"):
        raise SettingsError("a store needs alembic, which is not installed", place=place, remedy=remedy)
    return parsed.set(drivername=driver)


def _check_file(database: str | None, place: str) -> None:
    if not database or database == ":memory:" or database.startswith("file:"):
        raise SettingsError("SQLite needs a file", place=place, remedy="write sqlite:////path/to/proxy.db")
    file = Path(database).absolute()
    if not file.parent.is_dir():
        raise SettingsError(f"there is no directory {file.parent}", place=place, remedy="create it")
    if not os.access(file.parent, os.W_OK) or (file.exists() and not os.access(file, os.W_OK)):
        raise SettingsError(f"{file} is not writable", place=place, remedy="give this user the right to write there")


def engine_of(url: URL, file: StoreFile | None, *, synchronous: str = "NORMAL") -> Engine:
    """Return the engine of a checked URL; nothing is connected yet.

    file: of SQLite; synchronous: its pragma, with FULL each commit outlives a crash of the machine.
    """
    if file is None:
        engine = create_engine(url, pool_pre_ping=True, connect_args=_PATIENCE)
        event.listen(engine, "connect", _on_postgresql_connect)
        return engine
    engine = create_engine(url, creator=file.connect)
    event.listen(engine, "connect", partial(_on_sqlite_connect, synchronous))
    event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _on_postgresql_connect(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.execute("SET lock_timeout = '10s'")
    connection.execute("SET statement_timeout = '120s'")
    connection.commit()


def _on_sqlite_connect(synchronous: str, connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves, so that DDL is in them too
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")


def _on_sqlite_begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def short_reason(error: Exception) -> str:
    """Return the database's own words in one line, without the statement and its values."""
    original = getattr(error, "orig", None) or error
    return " ".join(str(original).split())[:300]
