"""A Docker daemon of the tests' own, without registry and network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quicksilver_lab.workloads.servers.dockerd import Dockerd, missing, running_dockerd


@contextmanager
def private_dockerd(*, live_restore: bool = False) -> Iterator[Dockerd]:
    """Run a daemon with the busybox image; skip the test where none can run."""
    why = missing()
    if why:
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="quicksilver-docker-"))  # pytest's own are too long for sockets
    with running_dockerd(folder, live_restore=live_restore) as daemon:
        daemon.import_image()
        yield daemon


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    """Run a daemon for all tests that need no other one."""
    with private_dockerd() as daemon:
        yield daemon
