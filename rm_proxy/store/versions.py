"""Whether the store's tables are of the version that this program works with, without Alembic.

Alembic takes a tenth of a second to import; most starts of the proxy find the tables as they have to be. The steps up
and down are in `rm_proxy.store.migrate`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect

from quicksilver.common.errors import QuicksilverError

NEWEST: Final = "0006"
"""The version that this program works with: the last file in migrations/versions."""
_TABLE: Final = "alembic_version"


class NewerTablesError(QuicksilverError):
    """The tables are those of another, newer quicksilver."""


class NoSuchVersionError(QuicksilverError):
    """There is no such version of the tables to go down to."""


class CannotMigrateError(QuicksilverError):
    """The tables are of no version that this program can migrate."""


def is_newest(connection: Connection) -> bool:
    """Return whether the tables need no migration."""
    if not inspect(connection).has_table(_TABLE):
        return False
    return [row[0] for row in connection.exec_driver_sql(f"SELECT version_num FROM {_TABLE}")] == [NEWEST]
