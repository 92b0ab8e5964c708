"""The version of a database's tables, without Alembic, which takes long to import."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect

from quicksilver.common.errors import QuicksilverError

_TABLE: Final = "alembic_version"


class NewerTablesError(QuicksilverError):
    """The tables are those of another, newer quicksilver."""


class NoSuchVersionError(QuicksilverError):
    """There is no such version of the tables to go down to."""


class CannotMigrateError(QuicksilverError):
    """The tables are of no version that this program can migrate."""


def has_version(connection: Connection, version: str) -> bool:
    """Return whether the tables are of this version."""
    if not inspect(connection).has_table(_TABLE):
        return False
    return [row[0] for row in connection.exec_driver_sql(f"SELECT version_num FROM {_TABLE}")] == [version]
