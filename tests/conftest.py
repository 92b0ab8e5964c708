"""Fixtures that all tests share; in CI hypothesis draws the same examples each time."""

import os

from hypothesis import settings

from cluster.testing import hadoop_cluster

__all__ = ["hadoop_cluster"]

settings.register_profile("ci", derandomize=True, database=None, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
