"""Two ResourceManagers and a real ZooKeeper: the active one is killed while jobs hold queueables; and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.cluster import Cluster, ClusterSpec
from quicksilver.cluster.daemons import ha_state
from quicksilver.cluster.local_daemons import LocalDaemons
from quicksilver.cluster.ports import free_base_port
from tests.real.restarts import ALL_MAPS_Q, Recovery, jobs, nothing_left, poll, states

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("ha"),
        base_port=free_base_port(),
        nodes=2,
        node_memory_mb=2560,
        ha=True,
        client_overlay=True,
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_jobs_outlive_a_failover_and_the_way_back(cluster: Cluster) -> None:
    stack = LocalDaemons(cluster, ALL_MAPS_Q)
    stack.start()
    try:
        with jobs(cluster, stack, "failover") as running:
            for turn in range(2):
                active = cluster.active_rm()
                [other] = [rm for rm in cluster.spec.resource_managers if rm != active]
                recovery = Recovery(stack, cluster.spec.resource_managers)
                print("before", states(stack, cluster))
                cluster.kill(active.daemon)
                poll(f"{other.id} takes over", lambda rm=other: ha_state(rm) == "ACTIVE", 30)
                cluster.restart(active.daemon)
                if turn == 0:  # later one may be about to finish
                    poll("the jobs' masters register anew", lambda r=recovery: len(r.took_s) >= 2, 30)
                print("registered after", recovery.stop(), states(stack, cluster))
            running.finish()
        nothing_left(cluster, stack)
    finally:
        stack.stop()
