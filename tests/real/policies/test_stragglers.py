"""Where the next task of a job goes that has a late one, by what the NodeManagers recorded."""

from __future__ import annotations

import asyncio

import pytest

from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from tests.real.test_policies import host, recorded, stack

pytestmark = pytest.mark.hadoop


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


async def beside_a_late_task(cluster: Cluster) -> tuple[list[SleepTask], list[SleepTask]]:
    """Let a task run 9 s that is expected to take 1 s; after 4 s, want another one where the first one's input is."""
    first = (host(cluster, 0),)
    async with job(cluster, "late") as mine:
        late = mine.ask(1, 9.0, priority=20, hosts=first)
        await mine.until(lambda: any(life.running_s is not None for life in recorded(cluster, late)), 120.0)
        await asyncio.sleep(4.0)
        copy = mine.ask(1, 0.5, priority=20, hosts=first)
        await mine.until_done()
        return late, copy


@pytest.mark.parametrize("ratio", [2.0, pytest.param(0.0, marks=pytest.mark.long)])
def test_a_second_copy_goes_to_another_node(cluster: Cluster, ratio: float) -> None:
    rules = {"rules": [{"expected_s": 1}]}
    with stack(cluster, place={"policy": "late"}, straggler_ratio=ratio, estimate=rules):
        late, copy = asyncio.run(beside_a_late_task(cluster))
    (one,), (other,) = recorded(cluster, late), recorded(cluster, copy)
    assert one.node == "node1"
    assert (other.node == "node1") == (ratio == 0.0)
