"""Fixtures that all tests share; hypothesis looks at no clock, and in CI it draws the same examples each time."""

import gc
import os

from hypothesis import settings

from tests.hadoop_cluster import hadoop_cluster, shared_classes

__all__ = ["hadoop_cluster", "shared_classes"]

settings.register_profile("here", deadline=None)
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_finish() -> None:
    """Spare the collector what lives as long as the session: a tenth of a second and more each time, in each test."""
    gc.collect()
    gc.freeze()
