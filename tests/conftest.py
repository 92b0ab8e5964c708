"""Fixtures that all tests share."""

from cluster.testing import hadoop_cluster

__all__ = ["hadoop_cluster"]
