"""The fixture with a running Hadoop cluster that the tests of a session share."""

from collections.abc import Iterator
from functools import cache

import pytest

from quicksilver_lab.cluster.archive import make_archive
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec


@cache
def archived_classes() -> None:
    """Make the archive of Hadoop's classes, unless it is there, before tests that start many of its JVMs."""
    make_archive(free_base_port(1))


@pytest.fixture(scope="session")
def hadoop_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running plain cluster of 3 nodes for the whole session; use restart_yarn to change it.

    A test that needs it otherwise than `spec.overlay` says calls restart_yarn; nobody turns it back.
    """
    spec = ClusterSpec(workdir=tmp_path_factory.mktemp("cluster"), base_port=free_base_port(), overlay=False)
    cluster = Cluster(spec)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
