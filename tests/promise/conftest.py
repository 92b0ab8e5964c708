"""The clusters of the promise: what users install, with `policies: {}`, on real ResourceManagers and NodeManagers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from quicksilver.cluster.cluster import Cluster
from quicksilver.cluster.local_daemons import LocalDaemons
from quicksilver.cluster.ports import free_base_port
from quicksilver.cluster.spec import ClusterSpec

NODES: Final = 3
CORES: Final = 2
"""Of each node, as its sidecar has it (`sidecar.vcores`)."""
EXTRA: Final = 1
"""Places beyond them under the default preset (`preempt: las`, setting `extra`); the NodeManager advertises both."""
QUEUES: Final[Mapping[str, int]] = {"default": 80, "batch": 20}


def promise_spec(workdir: Path, vcores: int = CORES + EXTRA, **settings: Any) -> ClusterSpec:
    """Return a cluster as `quicksilver install --with sharing` leaves one.

    vcores: those of a NodeManager; settings: further ones of ClusterSpec.
    """
    return ClusterSpec(
        workdir=workdir,
        base_port=free_base_port(NODES),
        nodes=NODES,
        node_vcores=vcores,
        node_memory_mb=3072,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues=dict(QUEUES),
        extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"}},
        **settings,
    )


def daemons(cluster: Cluster, policies: Mapping[str, Any], name: str) -> LocalDaemons:
    """Return proxy and sidecars that are not started yet; `name` is that of their folder and control group."""
    made = LocalDaemons(cluster, policies, sidecar={"vcores": CORES, "cgroup": f"quicksilver-{name}-{os.getpid()}"})
    made.folder = cluster.spec.workdir / f"quicksilver-{name}"
    return made


@pytest.fixture(scope="session")
def jobs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with HDFS and a JobHistoryServer, whose ResourceManager and NodeManagers recover from a kill.

    A NodeManager (3.4.2) that was killed wants room for each container that it recovers, beside the room that it counts
    for it already. Where it has none it reports opportunistic ones as killed, and lets them run: these have it.
    """
    vcores = 2 * (CORES + EXTRA)
    cluster = Cluster(promise_spec(tmp_path_factory.mktemp("jobs"), vcores, rm_recovery=True, nm_recovery=True))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def presets_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes without HDFS, for proxies and sidecars of one preset after the other."""
    cluster = Cluster(promise_spec(tmp_path_factory.mktemp("presets"), yarn_only=True))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def scheduling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDaemons]:
    """Proxy and sidecars of the default preset before three nodes without HDFS, for masters whose tasks sleep."""
    cluster = Cluster(promise_spec(tmp_path_factory.mktemp("scheduling"), yarn_only=True))
    cluster.start()
    try:
        stack = daemons(cluster, {}, "scheduling")
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()
    finally:
        cluster.stop()
