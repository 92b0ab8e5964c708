"""Clusters that several of these modules use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver_lab.bench.las.modes import las
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from tests.real.requester import SCALE

NODES, VCORES = 3, 2
"""Of `three_nodes`."""


@pytest.fixture(scope="session")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of two cores with the settings of `bench.las`, whose containers may use more memory than they ask for.

    Each test runs a stack of its own on it and leaves nothing behind.
    """
    spec = las(SCALE).spec(tmp_path_factory.mktemp("one"), free_base_port(1), {"default": 100})
    yarn = dict(spec.extra_site["yarn"]) | {"yarn.nodemanager.pmem-check-enabled": "false"}
    made = Cluster(spec.model_copy(update={"extra_site": {**spec.extra_site, "yarn": yarn}}))
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def plain_cluster(hadoop_cluster: Cluster) -> Cluster:
    """Return the session's cluster as stock YARN."""
    if hadoop_cluster.spec.overlay:
        hadoop_cluster.restart_yarn(overlay=False)
    return hadoop_cluster


@pytest.fixture(scope="module")
def overlay_cluster(hadoop_cluster: Cluster) -> Cluster:
    """Return the session's cluster with the overlay."""
    if not hadoop_cluster.spec.overlay:
        hadoop_cluster.restart_yarn(overlay=True)
    return hadoop_cluster


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with the overlay, each with room for two containers, to which any number of masters may come."""
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("three"),
        base_port=free_base_port(NODES),
        nodes=NODES,
        node_vcores=VCORES,
        node_memory_mb=4096,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues={"default": 100},
        extra_site={
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1000"},
            "yarn": {"yarn.resourcemanager.placement-constraints.handler": "scheduler"},
        },
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()
