"""Makes the store's tables before the workers begin: two of them that do so at once hinder each other."""

from __future__ import annotations

import multiprocessing
import os
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.parent import end_with
from rm_proxy.store.store import Store

TABLES_S: Final = 10.0
"""Time for it; then the workers begin all the same, and try it themselves."""
log = get_logger(__name__)


def make_tables(url: str, seconds: float = TABLES_S) -> bool:
    """Create or migrate the tables of a store in a process of its own; return whether they are there.

    Alembic's memory ends with that process. Whatever fails is for the workers to try again, and to log.
    """
    process = multiprocessing.get_context("fork").Process(target=_open, args=(url, os.getpid()), daemon=True)
    process.start()
    process.join(seconds)
    if process.is_alive():
        log.warning("the store's tables are not there in time: the workers begin without", seconds=seconds)
        process.kill()
        process.join()
    return process.exitcode == 0


def _open(url: str, parent: int) -> None:
    end_with(parent)
    try:
        store = Store(url)
        store.open()
        store.close()
    except QuicksilverError as error:
        log.info("the store's tables are not made yet", why=str(error))
        raise SystemExit(1) from error
