"""Fixtures that all tests share; hypothesis looks at no clock, and in CI it draws the same examples each time.

The gate draws a share of them, `make test-all` draws all.
"""

import gc
import os

import pytest
import structlog
from hypothesis import settings

from tests.dockerd import dockerd
from tests.gate.plugin import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_runtest_protocol,
    pytest_runtest_teardown,
    pytest_timeout_set_timer,
    pytest_unconfigure,
    pytest_xdist_make_scheduler,
)
from tests.gate.steps import SHARE
from tests.hadoop_cluster import archived_classes, hadoop_cluster
from tests.loops import pytest_pyfunc_call

__all__ = [
    "dockerd",
    "hadoop_cluster",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
    "pytest_timeout_set_timer",
    "pytest_unconfigure",
    "pytest_xdist_make_scheduler",
]

examples = round(100 * float(os.environ.get(SHARE, "1")))
settings.register_profile("here", deadline=None, max_examples=examples)
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, deadline=None, max_examples=examples)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before its fixtures: logs go where structlog sends them, whichever test configured them before.

    Also see to it that the JVMs of a test with a cluster start fast; other tests go on meanwhile.
    """
    structlog.reset_defaults()
    if item.get_closest_marker("hadoop"):
        archived_classes()


def pytest_collection_finish() -> None:
    """Spare the collector what lives as long as the session: a tenth of a second and more each time, in each test."""
    gc.collect()
    gc.freeze()
