"""One Chromium for all tests of pages of a process; a PostgreSQL for all tests of stores."""

from collections.abc import Iterator

import pytest

from quicksilver_lab.workloads.servers.postgres import Postgres
from tests.rm_proxy.ui.chromium import MISSING, Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if MISSING:
        pytest.fail(MISSING)
    with chromium(tmp_path_factory.mktemp("screenshots")) as session:
        yield session


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server
