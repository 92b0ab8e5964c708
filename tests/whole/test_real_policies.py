"""Each policy changes what it should on real YARN, by what ResourceManager and NodeManagers recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.spec import ClusterSpec
from cluster.testing import free_base_port
from quicksilver.stack import Stack
from tests.whole.job import Task, job
from workloads.mapreduce import JobOptions, count_words, make_text, put_text, read_counts, start_wordcount
from workloads.nm_log import Life, most_at_once, read_lives
from workloads.records import Watch, application_of

pytestmark = pytest.mark.hadoop
NODES, VCORES = 3, 2
BASE: Mapping[str, Any] = {
    "queues": "*",
    "routes": [{"policy": "only_q"}],
    "quota": {"policy": "none"},
    "retries_to_g": 20,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("policies"),
        base_port=free_base_port(NODES),
        nodes=NODES,
        node_vcores=VCORES,
        node_memory_mb=4096,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues={"default": 100},
        extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1000"}},
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def stack(cluster: Cluster, **policies: Any) -> Iterator[Stack]:
    """Run proxy and sidecars with these policies beside BASE."""
    made = Stack(cluster, {**BASE, **policies})
    made.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    made.start()
    try:
        yield made
    finally:
        made.stop()
    for name in ("proxy", *(node.name for node in cluster.spec.node_addresses)):
        assert "Traceback" not in made.log(name).read_text(), made.log(name)


def all_lives(cluster: Cluster) -> dict[str, Life]:
    return read_lives((node.name, cluster.log(f"nodemanager-{node.name}")) for node in cluster.spec.node_addresses)


def recorded(cluster: Cluster, tasks: list[Task]) -> list[Life]:
    """Return what the NodeManagers' logs tell of the containers of these tasks, in the order of the tasks."""
    found = all_lives(cluster)
    return [found[cid] for task in tasks for cid in task.containers if cid in found]


def host(cluster: Cluster, number: int) -> str:
    return cluster.spec.node_addresses[number].host


def events(stack: Stack, tasks: list[Task], kind: str) -> list[dict[str, Any]]:
    """Return what the sidecars reported of the tasks' containers."""
    wanted = {cid for task in tasks for cid in task.containers}
    told = [stack.get(f"/v1/containers/{cid}") for cid in sorted(wanted)]
    return [event for one in told for event in one["events"] if event["kind"] == kind]


def test_a_quota_of_three_holds_for_mapreduce(cluster: Cluster) -> None:
    text = make_text(2000)
    put_text(cluster, "/policies/input.txt", text)
    options = JobOptions(properties={"mapreduce.map.speculative": "false"})
    with stack(cluster, quota={"policy": "absolute", "settings": {"max_q": 3}}), Watch(cluster) as watch:
        done = start_wordcount(cluster, "/policies/input.txt", "/policies/counted", maps=8, options=options).wait(240)
    assert read_counts(cluster, "/policies/counted") == count_words(text)
    mine = {cid for cid in watch.granted().all if application_of(cid) == done.application_id}
    lives = all_lives(cluster)
    queueable = [lives[cid] for cid in mine & watch.granted().opportunistic if cid in lives]
    assert len(mine) >= 10
    assert 3 <= len(queueable) < len(mine) - 1
    assert most_at_once(queueable) == 3


def test_a_quota_of_three_never_shows_four_running(cluster: Cluster) -> None:
    async def run() -> list[Task]:
        async with job(cluster, "quota") as mine:
            tasks = mine.ask(12, 1.5)
            await mine.until_done()
            return tasks

    with stack(cluster, quota={"policy": "absolute", "settings": {"max_q": 3}}), Watch(cluster) as watch:
        tasks = asyncio.run(run())
    opportunistic = watch.granted().opportunistic
    containers = {cid for task in tasks for cid in task.containers}
    queueable = [life for cid, life in all_lives(cluster).items() if cid in opportunistic & containers]
    assert 3 <= len(queueable) < len(containers)
    assert most_at_once(queueable) == 3
    assert 0 < watch.opportunistic_at_rm <= 3


@pytest.mark.parametrize(("order", "first"), [("job_submission", "older"), ("fifo", "younger")])
def test_reordering_starts_the_older_job_first(cluster: Cluster, order: str, first: str) -> None:
    async def run() -> tuple[list[Task], list[Task]]:
        async with job(cluster, "older") as older:
            blocking = older.ask(NODES * VCORES, 8.0, priority=10)
            await older.until_granted(blocking)
            async with job(cluster, "younger") as younger:
                late = younger.ask(2 * NODES, 1.0)
                await younger.until_granted(late)
                early = older.ask(2 * NODES, 1.0)
                await younger.until_done()
                await older.until_done()
                return early, late

    with stack(cluster, order={"policy": order}, place={"policy": "least_queue"}):
        early, late = asyncio.run(run())
    began = {
        "older": [life.running_s or 0.0 for life in recorded(cluster, early)],
        "younger": [life.running_s or 0.0 for life in recorded(cluster, late)],
    }
    other = "younger" if first == "older" else "older"
    assert len(began[first]) == len(began[other]) == 2 * NODES
    assert sorted(began[first])[NODES] < sorted(began[other])[NODES]
    assert sum(began[first]) < sum(began[other])
