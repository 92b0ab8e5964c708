"""An open store in each kind of database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver_lab.workloads.servers.postgres import Postgres
from rm_proxy.store.store import Store
from tests.rm_proxy.databases import fresh


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


_serial = iter(range(1000))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An open store in each kind of database."""
    if request.param == "sqlite":
        store = Store(f"sqlite:///{tmp_path / 'proxy.db'}")
    else:
        store = Store(fresh(request.getfixturevalue("postgres"), f"store{next(_serial)}"))
    store.open()
    yield store
    store.close()
