"""One Chromium for all tests of pages of a process."""

from collections.abc import Iterator

import pytest

from tests.rm_proxy.ui.chromium import MISSING, Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if MISSING:
        pytest.fail(MISSING)
    with chromium(tmp_path_factory.mktemp("screenshots")) as session:
        yield session
