"""Fixtures that all tests share; hypothesis looks at no clock, and in CI it draws the same examples each time."""

import gc
import os

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests import lanes
from tests.dockerd import dockerd
from tests.hadoop_cluster import archived_classes, hadoop_cluster

__all__ = ["dockerd", "hadoop_cluster"]

settings.register_profile("here", deadline=None)
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests of a process of pytest-xdist."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        lanes.sort(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> lanes.Scheduler | None:
    """With `--dist loadscope`, deal the tests as tests/lanes.py says."""
    return lanes.Scheduler(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before its fixtures: see to it that the JVMs of a test with a cluster start fast; other tests go on meanwhile."""
    if item.get_closest_marker("hadoop"):
        archived_classes()


def pytest_collection_finish() -> None:
    """Spare the collector what lives as long as the session: a tenth of a second and more each time, in each test."""
    gc.collect()
    gc.freeze()
