"""Alembic steps of the store; run by `rm_proxy.store.store` when it opens."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quicksilver.common.store.migrate import Migrations

MIGRATIONS: Final = Migrations(Path(__file__).parent, "quicksilver store downgrade")
