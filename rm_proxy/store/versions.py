"""Whether the store's tables are of the version that this program works with, without Alembic.

Alembic takes a tenth of a second to import; most starts of the proxy find the tables as they have to be. The steps up
and down are in `rm_proxy.store.migrations`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from quicksilver.common.store.versions import has_version

NEWEST: Final = "0007"
"""The version that this program works with: the last file in migrations/versions."""


def is_newest(connection: Connection) -> bool:
    """Return whether the tables need no migration."""
    return has_version(connection, NEWEST)
