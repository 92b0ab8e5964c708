"""The ResourceManager is killed and comes back, with work-preserving recovery, while jobs hold queueable containers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from quicksilver_lab.cluster import Cluster
from tests.real.failures.restarts import Recovery, jobs, nothing_left, queueable_maps, states, two_nodes

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(300)]
"""The short campaign (tests/real/failures/test_faults.py) kills the ResourceManager too."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with two_nodes(tmp_path_factory.mktemp("recovering"), rm_recovery=True) as cluster:
        yield cluster


def test_jobs_outlive_the_resource_manager_twice(cluster: Cluster) -> None:
    with queueable_maps(cluster) as stack:
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
