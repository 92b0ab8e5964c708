"""Versions of a store's tables: which ones a database has, and the steps up and down (Alembic)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from quicksilver.common.process.audit_log import write_audit
from quicksilver.common.store.versions import CannotMigrateError, NewerTablesError, NoSuchVersionError


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of a database's tables."""

    current: str
    """"" when there are no tables yet."""
    known: tuple[str, ...]
    """Versions that this program knows, the oldest first."""

    @property
    def newest(self) -> str:
        """The version that this program works with."""
        return self.known[-1]

    @property
    def is_newer(self) -> bool:
        """Whether the tables are of a version that this program does not know."""
        return bool(self.current) and self.current not in self.known


@dataclass(frozen=True, slots=True)
class Migrations:
    """The steps of one store's tables."""

    folder: Path
    """Alembic's: `env.py` and `versions/`."""
    command: str
    """Our command that goes down to a version, which follows it."""

    def versions(self, connection: Connection) -> Versions:
        """Return the versions of a database."""
        script = ScriptDirectory.from_config(self._config(connection))
        known = tuple(step.revision for step in script.walk_revisions())[::-1]
        return Versions(MigrationContext.configure(connection).get_current_revision() or "", known)

    def upgrade(self, connection: Connection) -> None:
        """Create or migrate the tables, in the transaction of `connection`.

        Raises NewerTablesError, CannotMigrateError.
        """
        try:
            now = self.versions(connection)
            if now.is_newer:
                raise self._newer(now)
            command.upgrade(self._config(connection), "head")
            if now.current != now.newest:
                _audit(connection, now.current, now.newest)
        except CommandError as error:
            remedy = "take another database or a quicksilver that knows it"
            raise CannotMigrateError(f"cannot be migrated: {error}", remedy=remedy) from error

    def downgrade(self, connection: Connection, to: str) -> Versions:
        """Go down to the tables of version `to`, in the transaction of `connection`; returns the versions before.

        Data that earlier versions do not store is deleted. Raises NewerTablesError, NoSuchVersionError.
        """
        now = self.versions(connection)
        if now.is_newer:
            raise self._newer(now)
        earlier = now.known[: now.known.index(now.current)] if now.current else ()
        if to not in earlier:
            have = f"its tables are of version {now.current}" if now.current else "it has no tables"
            remedy = f"choose one of {', '.join(earlier)}" if earlier else "there is nothing to go down to"
            raise NoSuchVersionError(f"{have}, and {to} is not an earlier version", remedy=remedy)
        command.downgrade(self._config(connection), to)
        _audit(connection, now.current, to)
        return now

    def _newer(self, now: Versions) -> NewerTablesError:
        remedy = f"run the newer quicksilver, have it do `{self.command} {now.newest}`, or take another database"
        message = f"its tables are of version {now.current}, this program knows {now.newest}"
        return NewerTablesError(message, remedy=remedy)

    def _config(self, connection: Connection) -> Config:
        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        return config


def _audit(connection: Connection, before: str, after: str) -> None:
    store = connection.engine.url.render_as_string(hide_password=True)
    details = {"before": before, "after": after}
    write_audit("migrate", user=f"uid {os.geteuid()}", target=store, details=details)
