"""The store's tables are there before the first worker, and no worker waits long for them."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

from rm_proxy.service.workers.tables import make_tables
from rm_proxy.store.store import Store
from rm_proxy.store.versions import is_newest


def test_a_new_store_gets_its_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'proxy.db'}"
    assert make_tables(url)
    store = Store(url)
    with store.engine.begin() as connection:
        assert is_newest(connection)
    store.close()
    assert make_tables(url), "they are there already"


def test_a_store_that_cannot_be_had_holds_no_worker_up(tmp_path: Path) -> None:
    assert not make_tables(f"sqlite:///{tmp_path / 'nowhere' / 'proxy.db'}")
    path = tmp_path / "proxy.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    other.execute("BEGIN EXCLUSIVE")
    assert not make_tables(f"sqlite:///{path}", 0.3)
    assert not multiprocessing.active_children()
    other.close()
