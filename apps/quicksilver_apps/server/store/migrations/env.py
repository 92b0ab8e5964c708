"""Alembic's environment: steps run on the connection that `Migrations` hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, text

from quicksilver_apps.server.store.tables import AppsBase

_LOCK = 0x71736173  # any constant: two servers of one PostgreSQL take turns


def run() -> None:
    """Run the steps in one transaction."""
    connection: Connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=AppsBase.metadata, render_as_batch=True)
    with context.begin_transaction():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))  # a step over a large table takes its time
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        context.run_migrations()


run()
