"""Fresh databases of one PostgreSQL server for tests."""

import psycopg

from quicksilver_lab.workloads.servers.postgres import Postgres


def fresh(server: Postgres, name: str) -> str:
    """Make an empty database; returns its URL."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    return server.url_of(name)
