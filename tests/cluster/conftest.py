"""The running cluster for the tests of this folder."""

from cluster.testing import hadoop_cluster

__all__ = ["hadoop_cluster"]
