"""Orders, quotas, roll-outs and windows act on real YARN, by what ResourceManager and NodeManagers recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from policies.config.schema import Rollout
from policies.model import ContainerView, Kind, Resources
from policies.order.random import RandomOrder, key
from quicksilver_lab.bench.las.master import title
from quicksilver_lab.bench.sleep_job import SleepTask, all_lives, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.nm_log import Life, most_at_once
from quicksilver_lab.workloads.records import RecordsWatch
from tests.real.conftest import NODES, VCORES
from tests.real.test_policies import TO_THE_FIRST, host, recorded, stack

pytestmark = pytest.mark.hadoop
LONG = pytest.mark.long
"""What happens without the policy."""
HINTS: Mapping[str, Any] = {
    "rules": [
        {"match": {"name": title("slow")}, "expected_s": 30},
        {"match": {"name": title("quick")}, "expected_s": 1},
    ]
}


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


def began(cluster: Cluster, tasks: list[SleepTask]) -> list[float]:
    """Return when the tasks began to run, by the NodeManagers, in order."""
    return sorted(life.running_s for life in recorded(cluster, tasks) if life.running_s is not None)


@pytest.mark.parametrize(
    ("order", "first"),
    [("srpt", "quick"), ("sjf", "quick"), ("hrrn", "quick"), pytest.param("fifo", "slow", marks=LONG)],
)
def test_an_order_by_durations_starts_the_quick_job_first(cluster: Cluster, order: str, first: str) -> None:
    """All slots are taken; the tasks of a slow job wait at the nodes, and then those of a quick one do."""

    async def run() -> dict[str, list[SleepTask]]:
        async with job(cluster, "blocking") as blocking, job(cluster, "slow") as slow, job(cluster, "quick") as quick:
            await blocking.until_granted(blocking.ask(NODES * VCORES, 7.0))
            late = slow.ask(2 * NODES, 1.0)
            await slow.until_granted(late)
            early = quick.ask(2 * NODES, 1.0)
            for each in (blocking, slow, quick):
                await each.until_done()
            return {"slow": late, "quick": early}

    with stack(cluster, order={"policy": order}, place={"policy": "least_queue"}, estimate=HINTS):
        tasks = asyncio.run(run())
    times = {name: began(cluster, of_job) for name, of_job in tasks.items()}
    other = "slow" if first == "quick" else "quick"
    assert len(times[first]) == len(times[other]) == 2 * NODES
    assert times[first][NODES] < times[other][NODES]
    assert sum(times[first]) < sum(times[other])


@pytest.mark.parametrize("order", ["random", pytest.param("fifo", marks=LONG)])
def test_a_random_order_is_another_one_than_that_of_arrival(cluster: Cluster, order: str) -> None:
    """The tasks are so large that the node runs one at a time; a hash of its id gives each its place."""
    first, large_mb = (host(cluster, 0),), 2304

    async def run() -> list[SleepTask]:
        async with job(cluster, "random") as mine:
            before = mine.ask(1, 5.0, priority=10, hosts=first, memory_mb=large_mb)
            await mine.until_granted(before)
            await asyncio.sleep(0.5)
            tasks = mine.ask(7, 0.3, hosts=first, memory_mb=large_mb)
            await mine.until_done()
            return tasks

    with stack(cluster, order={"policy": order}, place=TO_THE_FIRST):
        tasks = asyncio.run(run())
    arrived = [task.containers[0] for task in tasks]
    drawn = sorted(arrived, key=lambda cid: key(ContainerView(cid, "", Kind.QUEUEABLE, Resources()), RandomOrder(), 0))
    lives = all_lives(cluster)
    assert {lives[cid].node for cid in arrived} == {"node1"}
    assert sorted(arrived, key=lambda cid: lives[cid].running_s or 0.0) == (drawn if order == "random" else arrived)
    assert drawn != arrived, "by a chance of one in 5040"


def queueable(cluster: Cluster, watch: RecordsWatch, tasks: list[SleepTask]) -> list[Life]:
    """Return the containers of these tasks that the ResourceManager granted as OPPORTUNISTIC."""
    containers = {cid for task in tasks for cid in task.containers}
    granted = watch.granted().opportunistic & containers
    lives = all_lives(cluster)
    return [lives[cid] for cid in sorted(granted) if cid in lives]


@pytest.mark.parametrize("quota", ["relative", pytest.param("none", marks=LONG)])
def test_a_quota_by_guaranteed_containers_holds(cluster: Cluster, quota: str) -> None:
    """The job holds two guaranteed containers: not more than two queueable ones run at a time, the rest goes G."""

    async def run() -> list[SleepTask]:
        async with job(cluster, "relative") as mine:
            await mine.until_granted(mine.ask(2, 7.0, priority=10))
            tasks = mine.ask(8, 1.5)
            await mine.until_done()
            return tasks

    settings = {"per_g": 1.0, "min_q": 0} if quota == "relative" else {}
    routes = [{"match": {"priority": 10}, "policy": "only_g"}, {"policy": "only_q"}]
    with stack(cluster, quota={"policy": quota, "settings": settings}, routes=routes), RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
    of_q = queueable(cluster, watch, tasks)
    if quota == "relative":
        assert 1 <= len(of_q) < len(tasks) and most_at_once(of_q) <= 2
    else:
        assert len(of_q) == len(tasks) and most_at_once(of_q) > 2


@pytest.mark.parametrize("ratio", [0.34, pytest.param(1.0, marks=LONG)])
def test_queueable_containers_of_all_queues_keep_to_their_share(cluster: Cluster, ratio: float) -> None:
    """A third of six vcores: two at a time. What waits for long goes guaranteed: its YARN queue is entitled to it."""

    async def run() -> list[SleepTask]:
        async with job(cluster, "share") as mine:
            tasks = mine.ask(8, 1.0)
            await mine.until_done()
            return tasks

    settings = {"cluster_ratio": ratio, "user_ratio": 1}
    quota, late = {"policy": "queue_share", "settings": settings}, {"policy": "late"}
    with stack(cluster, quota=quota, place=late), RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
    of_q = queueable(cluster, watch, tasks)
    assert len(of_q) > 2
    assert most_at_once(of_q) <= 2 if ratio < 1 else most_at_once(of_q) > 2


def test_a_rollout_takes_the_applications_that_it_names(cluster: Cluster) -> None:
    async def run() -> dict[str, list[SleepTask]]:
        tasks = {}
        for number in range(5):
            async with job(cluster, f"part {number}") as mine:
                tasks[mine.app_id] = mine.ask(1, 0.2)
                await mine.until_done()
        return tasks

    half = {"percent": 50.0, "use": "new"}
    new = {"alternatives": {"new": {"routes": [{"policy": "only_q"}]}}, "rollout": [half]}
    with stack(cluster, routes=[{"policy": "only_g"}], **new), RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
    taken = {app_id for app_id, of_app in tasks.items() if queueable(cluster, watch, of_app)}
    assert taken == {app_id for app_id in tasks if Rollout(**half).takes(app_id)}


@pytest.mark.parametrize("is_open", [True, pytest.param(False, marks=LONG)])
def test_a_window_is_in_force_while_it_is_open(cluster: Cluster, is_open: bool) -> None:
    async def run() -> list[SleepTask]:
        async with job(cluster, "night") as mine:
            tasks = mine.ask(2, 0.5)
            await mine.until_done()
            return tasks

    cron = "* * * * *" if is_open else "0 0 29 2 *"
    window = {"name": "night", "cron": cron, "length_s": 90.0, "use": "new"}
    new = {"alternatives": {"new": {"routes": [{"policy": "only_q"}]}}, "windows": [window]}
    with stack(cluster, routes=[{"policy": "only_g"}], **new), RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
    assert len(queueable(cluster, watch, tasks)) == (2 if is_open else 0)
