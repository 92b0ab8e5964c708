"""Which application gets the places that come free, and at which node a container waits, by NodeManagers' logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from quicksilver_lab.bench.sleep_job import MEMORY_MB, SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.nm_log import most_at_once
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.rest import get_json
from tests.real.conftest import NODES, VCORES
from tests.real.policies.test_orders_and_quotas import began, queueable
from tests.real.test_policies import LONG, host, recorded, stack

pytestmark = pytest.mark.hadoop
SLOTS = NODES * VCORES
NODE_MB = 4096


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


@pytest.mark.parametrize(
    ("dispatch", "first"),
    [
        ("fair", "narrow"),
        ("las", "narrow"),
        ("levels", "narrow"),
        ("srpt", "narrow"),
        ("hrrn", "narrow"),
        ("fifo", "wide"),
    ],
)
def test_free_places_go_to_the_application_whose_turn_it_is(cluster: Cluster, dispatch: str, first: str) -> None:
    """A wide job holds all slots and waits for more; then a narrow one waits for the three that come free first."""

    async def run() -> dict[str, list[SleepTask]]:
        async with job(cluster, "wide") as wide, job(cluster, "narrow") as narrow:
            held = [*wide.ask(NODES, 6.0, priority=10), *wide.ask(SLOTS - NODES, 10.0, priority=11)]
            await wide.until_granted(held)
            many = wide.ask(3 * NODES, 1.0)
            await asyncio.sleep(1.0)
            few = narrow.ask(NODES, 1.0)
            await wide.until_done()
            await narrow.until_done()
            return {"wide": many, "narrow": few}

    with stack(cluster, dispatch={"policy": dispatch}, place={"policy": "late"}, estimate={"default_s": 5}):
        tasks = asyncio.run(run())
    times = {name: began(cluster, of_job) for name, of_job in tasks.items()}
    other = "wide" if first == "narrow" else "narrow"
    assert len(times["narrow"]) == NODES and len(times["wide"]) == 3 * NODES
    assert times[first][NODES - 1] < times[other][0], "the first three places"


SHORT, LONG_ONES, BUSY = 11, (12, 13), (7, 8, 9)
"""Priorities: of tasks that are expected to take 1 s, of those at each of two nodes that are expected to take 60 s, and
of those at each node that run meanwhile."""
EXPECTED: Mapping[str, Any] = {
    "prior_weight": 1000,
    "rules": [
        {"match": {"priority": SHORT}, "expected_s": 1},
        {"match": {"priority": list(LONG_ONES)}, "expected_s": 60},
        {"expected_s": 5},
    ],
}


@pytest.mark.parametrize(
    ("place", "settings", "nodes"),
    [
        ("topk_wait", {"k": 1}, {"node1"}),
        ("completion_time", {"noise_s": 0.0}, {"node1"}),
        ("least_queue", {}, {"node2", "node3"}),
    ],
)
def test_a_container_waits_where_the_wait_or_the_queue_is_shortest(
    cluster: Cluster, place: str, settings: Mapping[str, Any], nodes: set[str]
) -> None:
    """Five short tasks wait at the first node, and three that are expected to be long at each of the others."""

    async def run() -> list[SleepTask]:
        async with job(cluster, "queues") as mine:
            for number, priority in enumerate(BUSY):
                mine.ask(VCORES, 6.0, priority=priority, hosts=(host(cluster, number),), strict=True)
            await mine.until_granted(mine.tasks)
            mine.ask(5, 0.3, priority=SHORT, hosts=(host(cluster, 0),), strict=True)
            for number, priority in enumerate(LONG_ONES, 1):
                mine.ask(3, 0.3, priority=priority, hosts=(host(cluster, number),), strict=True)
            await mine.until_granted(mine.tasks)
            await asyncio.sleep(1.5)  # until the nodes have reported them
            task = mine.ask(1, 0.3)
            await mine.until_done()
            return task

    policy = {"policy": place, "settings": settings}
    with stack(cluster, place=policy, order={"policy": "fifo"}, estimate=EXPECTED):
        task = asyncio.run(run())
    (life,) = recorded(cluster, task)
    assert life.node in nodes


def test_a_batch_takes_all_cores_before_any_of_it_waits(cluster: Cluster) -> None:
    """By completion time: what is on its way to a node counts there, though the node has not reported it."""

    async def run() -> list[SleepTask]:
        async with job(cluster, "batch") as mine:
            tasks = mine.ask(SLOTS, 3.0)
            await mine.until_done()
            return tasks

    policy = {"policy": "completion_time", "settings": {"noise_s": 0.0}}
    with stack(cluster, place=policy, estimate=EXPECTED):
        tasks = asyncio.run(run())
    lives = recorded(cluster, tasks)
    assert most_at_once(lives) == SLOTS
    assert sorted(life.node for life in lives) == sorted(f"node{n}" for n in range(1, NODES + 1) for _ in range(VCORES))


@pytest.mark.parametrize("policy", ["by_framework", pytest.param("as_is", marks=LONG)])
def test_the_headroom_is_less_by_what_queueable_containers_use(cluster: Cluster, policy: str) -> None:
    """The ResourceManager counts guaranteed containers alone; it has a figure once the application asked for one."""
    count = SLOTS - 1

    async def run() -> tuple[int, int]:
        async with job(cluster, "headroom") as mine:
            guaranteed = mine.ask(1, 6.0, priority=10)
            await mine.until_granted(guaranteed)
            tasks = mine.ask(count, 4.0)
            await mine.until_granted(tasks)
            await asyncio.sleep(1.5)
            metrics = await asyncio.to_thread(get_json, f"{cluster.rm_rest}/ws/v1/cluster/metrics")
            shown_mb = mine.headroom_mb or 0
            await mine.until_done()
            return metrics["clusterMetrics"]["availableMB"], shown_mb

    settings = {"settings": {"rules": {"YARN": "less_queueable"}}} if policy == "by_framework" else {}
    routes = [{"match": {"priority": 10}, "policy": "only_g"}, {"policy": "only_q"}]
    with stack(cluster, headroom={"policy": policy, **settings}, routes=routes):
        available_mb, shown_mb = asyncio.run(run())
    assert available_mb == NODES * NODE_MB - MEMORY_MB
    assert shown_mb == available_mb - (count * MEMORY_MB if policy == "by_framework" else 0)


@pytest.mark.parametrize("route", ["hybrid_gq", pytest.param("only_q", marks=LONG)])
def test_long_tasks_are_guaranteed_and_short_ones_queueable(cluster: Cluster, route: str) -> None:
    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "both") as mine:
            short, long = mine.ask(3, 0.5, priority=SHORT), mine.ask(3, 0.5, priority=LONG_ONES[0])
            await mine.until_done()
            return short, long

    settings = {"settings": {"td_s": 10, "pq": 100}} if route == "hybrid_gq" else {}
    with stack(cluster, routes=[{"policy": route, **settings}], estimate=EXPECTED), RecordsWatch(cluster) as watch:
        short, long = asyncio.run(run())
    assert len(queueable(cluster, watch, short)) == 3
    assert len(queueable(cluster, watch, long)) == (0 if route == "hybrid_gq" else 3)
