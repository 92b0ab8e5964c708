"""Nodes that are chosen for the containers of one request together, by what the NodeManagers recorded."""

from __future__ import annotations

import asyncio

import pytest

from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from tests.real.conftest import VCORES
from tests.real.test_policies import host, recorded, stack

pytestmark = pytest.mark.hadoop


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


async def two_places(cluster: Cluster) -> tuple[list[SleepTask], list[SleepTask]]:
    """Leave one place on the first node and one on the second, for a task of anywhere and one of the first node."""
    async with job(cluster, "busy") as busy, job(cluster, "two") as two:
        counts = {0: VCORES - 1, 1: VCORES - 1, 2: VCORES}
        full = [
            busy.ask(count, 10.0, priority=number, hosts=(host(cluster, number),), strict=True)
            for number, count in counts.items()
        ]
        await busy.until_granted([task for tasks in full for task in tasks])
        await asyncio.sleep(1.5)  # until the nodes have reported them
        anywhere = two.ask(1, 1.0, priority=20)
        near = two.ask(1, 1.0, priority=21, hosts=(host(cluster, 0),))
        await two.until_done()
        await busy.until_done()
        return anywhere, near


@pytest.mark.parametrize("policy", ["stable", pytest.param("none", marks=pytest.mark.long)])
def test_each_task_gets_the_node_that_it_would_miss_most(cluster: Cluster, policy: str) -> None:
    place = {"policy": "completion_time", "settings": {"noise_s": 0.0}}
    with stack(cluster, place=place, match={"policy": policy}, estimate={"rules": [{"expected_s": 10}]}):
        anywhere, near = asyncio.run(two_places(cluster))
    (one,), (other,) = recorded(cluster, anywhere), recorded(cluster, near)
    assert (one.node, other.node) == (("node2", "node1") if policy == "stable" else ("node1", "node2"))
