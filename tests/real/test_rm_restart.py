"""The ResourceManager is killed and comes back, with work-preserving recovery, while jobs hold queueable containers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from quicksilver.cluster import Cluster, ClusterSpec
from quicksilver.cluster.local_daemons import LocalDaemons
from quicksilver.cluster.ports import free_base_port
from tests.real.restarts import ALL_MAPS_Q, Recovery, jobs, nothing_left, states

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(300)]
"""The short campaign (tests/real/test_faults.py) kills the ResourceManager too."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("recovering"),
        base_port=free_base_port(),
        nodes=2,
        node_memory_mb=2560,
        rm_recovery=True,
        client_overlay=True,
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_jobs_outlive_the_resource_manager_twice(cluster: Cluster) -> None:
    stack = LocalDaemons(cluster, ALL_MAPS_Q)
    stack.start()
    try:
        with jobs(cluster, stack, "restart") as running:
            for _ in range(2):
                recovery = Recovery(stack, cluster.spec.resource_managers)
                print("before", states(stack, cluster))
                cluster.kill("resourcemanager")
                time.sleep(1)
                cluster.restart("resourcemanager")
                time.sleep(4)
                print("registered after", recovery.stop(), states(stack, cluster))
            running.finish()
        nothing_left(cluster, stack)
    finally:
        stack.stop()
