"""The clusters of the promise: what users install, with `policies: {}`, on real ResourceManagers and NodeManagers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec

NODES: Final = 3
CORES: Final = 2
"""Of each node, as its sidecar has it (`sidecar.vcores`)."""
EXTRA: Final = 1
"""Places beyond them under the default preset (`preempt: las`, setting `extra`); the NodeManager advertises both."""
QUEUES: Final[Mapping[str, int]] = {"default": 80, "batch": 20}


def promise_spec(workdir: Path, nodes: int = NODES, vcores: int = CORES + EXTRA, **settings: Any) -> ClusterSpec:
    """Return a cluster as `quicksilver install --with sharing` leaves one.

    vcores: those of a NodeManager; settings: further ones of ClusterSpec.
    """
    return ClusterSpec(
        workdir=workdir,
        base_port=free_base_port(nodes),
        nodes=nodes,
        node_vcores=vcores,
        node_memory_mb=3072,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues=dict(QUEUES),
        extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"}},
        **settings,
    )


def daemons(
    cluster: Cluster, policies: Mapping[str, Any], name: str, proxy: Mapping[str, Any] | None = None
) -> LocalDaemons:
    """Return proxy and sidecars that are not started yet; `name` is that of their folder and control group."""
    made = LocalDaemons(
        cluster, policies, proxy, sidecar={"vcores": CORES, "cgroup": f"quicksilver-{name}-{os.getpid()}"}
    )
    made.folder = cluster.spec.workdir / f"quicksilver-{name}"
    return made


@contextmanager
def running_cluster(spec: ClusterSpec) -> Iterator[Cluster]:
    """Run a cluster for the time of a with block."""
    cluster = Cluster(spec)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def jobs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with HDFS and a JobHistoryServer, whose ResourceManager and NodeManagers recover from a kill.

    A NodeManager (3.4.2) that was killed wants room for each container that it recovers, beside the room that it counts
    for it already. Where it has none it reports opportunistic ones as killed, and lets them run: these have it.
    """
    vcores = 2 * (CORES + EXTRA)
    spec = promise_spec(tmp_path_factory.mktemp("jobs"), vcores=vcores, rm_recovery=True, nm_recovery=True)
    with running_cluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def presets_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes without HDFS, for proxies and sidecars of one preset after the other."""
    with running_cluster(promise_spec(tmp_path_factory.mktemp("presets"), yarn_only=True)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def scheduling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDaemons]:
    """Proxy and sidecars of the default preset before three nodes without HDFS, for masters whose tasks sleep."""
    with running_cluster(promise_spec(tmp_path_factory.mktemp("scheduling"), yarn_only=True)) as cluster:
        stack = daemons(cluster, {}, "scheduling")
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()
