"""Two ResourceManagers and a real ZooKeeper: the active one is killed while jobs hold queueables; and the way back.

With QUICKSILVER_COMPATIBILITY in the environment the outcomes become cells of the table in docs/compatibility.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.daemons import ha_state
from quicksilver_lab.compatibility import Disturbance, recorded
from tests.real.failures.restarts import Recovery, jobs, nothing_left, poll, queueable_maps, states, two_nodes

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=["plain", pytest.param("kerberos", marks=pytest.mark.kerberos)])
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    secure = request.param == "kerberos"
    with two_nodes(tmp_path_factory.mktemp("ha"), ha=True, kerberos=secure, spnego=secure) as cluster:
        yield cluster


def test_jobs_outlive_a_failover_and_the_way_back(cluster: Cluster) -> None:
    secure = " with Kerberos" if cluster.spec.kerberos else ""
    version = f"{cluster.spec.hadoop}{secure}, two ResourceManagers"
    with recorded(version, "MapReduce, distributed shell", "Q", Disturbance.RM), queueable_maps(cluster) as stack:
        with jobs(cluster, stack, "failover") as running:
            for turn in range(2):
                active = cluster.active_rm()
                [other] = [rm for rm in cluster.spec.resource_managers if rm != active]
                recovery = Recovery(stack, cluster.spec.resource_managers)
                print("before", states(stack, cluster))
                cluster.kill(active.daemon)
                poll(f"{other.id} takes over", lambda rm=other: ha_state(rm, cluster.web_auth) == "ACTIVE", 30)
                cluster.restart(active.daemon)
                if turn == 0:  # later one may be about to finish
                    poll("the jobs' masters register anew", lambda r=recovery: len(r.took_s) >= 2, 30)
                print("registered after", recovery.stop(), states(stack, cluster))
            running.finish()
        nothing_left(cluster, stack)
