"""Alembic steps of the app server's store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quicksilver.common.store.migrate import Migrations

MIGRATIONS: Final = Migrations(Path(__file__).parent, "quicksilver app-server store downgrade")
