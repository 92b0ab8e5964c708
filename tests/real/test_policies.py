"""Each policy changes what it should on real YARN, by what ResourceManager and NodeManagers recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from quicksilver_lab.bench.las.master import APP_TYPE
from quicksilver_lab.bench.sleep_job import SleepTask, all_lives, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.nm_log import Life, most_at_once
from quicksilver_lab.workloads.records import RecordsWatch, application_of
from quicksilver_lab.workloads.rest import get_json
from rm_proxy.domain.exit_codes import preempted_status
from rm_proxy.domain.records import UseRecord
from rm_proxy.store.store import Store
from tests.real.conftest import NODES, VCORES

pytestmark = pytest.mark.hadoop
LONG = pytest.mark.long
"""What happens without the policy."""
BASE: Mapping[str, Any] = {
    "queues": "*",
    "routes": [{"policy": "only_q"}],
    "quota": {"policy": "none"},
    "retries_to_g": 20,
}


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


@contextmanager
def stack(cluster: Cluster, history: Sequence[UseRecord] = (), **policies: Any) -> Iterator[LocalDaemons]:
    """Run proxy and sidecars with these policies beside BASE; `history` is what the store has of earlier weeks."""
    made = LocalDaemons(cluster, {**BASE, **policies})
    made.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    if history:
        made.folder.mkdir()
        store = Store(f"sqlite:///{made.folder / 'proxy.db'}")
        store.open()
        store.write(history)
        store.close()
    made.start()
    try:
        yield made
    finally:
        made.stop()
    for name in ("proxy", *(node.name for node in cluster.spec.node_addresses)):
        assert "Traceback" not in made.log(name).read_text(), made.log(name)


def opportunistic_at_rm(cluster: Cluster) -> int:
    """Return how many opportunistic containers the ResourceManager counts, once that has not changed for 3 s.

    Those of the test before may be ending; one that was promoted is counted for ever.
    """
    end_s, counts = time.monotonic() + 60, [-1]
    while len(counts) < 7 or len(set(counts[-6:])) > 1:
        assert time.monotonic() < end_s, counts
        nodes = get_json(f"{cluster.rm_rest}/ws/v1/cluster/nodes")["nodes"]["node"]
        counts.append(sum(node["numRunningOpportContainers"] + node["numQueuedContainers"] for node in nodes))
        time.sleep(0.5)
    return int(counts[-1])


def recorded(cluster: Cluster, tasks: list[SleepTask]) -> list[Life]:
    """Return what the NodeManagers' logs tell of the containers of these tasks, in the order of the tasks."""
    found = all_lives(cluster)
    return [found[cid] for task in tasks for cid in task.containers if cid in found]


def host(cluster: Cluster, number: int) -> str:
    return cluster.spec.node_addresses[number].host


def events(stack: LocalDaemons, tasks: list[SleepTask], kind: str) -> list[dict[str, Any]]:
    """Return what the sidecars reported of the tasks' containers."""
    wanted = {cid for task in tasks for cid in task.containers}
    told = [stack.get(f"/v1/containers/{cid}") for cid in sorted(wanted)]
    return [event for one in told for event in one["events"] if event["kind"] == kind]


def refused(stack: LocalDaemons, quota: int) -> int:
    """Return how many containers went guaranteed as the application held as many queueable ones as the quota allows."""
    reasons = [made["route_reason"] for made in stack.get("/v1/decisions?kind=G&limit=1000")["items"]]
    return sum(f"has {quota} queueable containers, its quota is {quota}" in reason for reason in reasons)


@LONG
def test_a_quota_of_three_holds_for_mapreduce(cluster: Cluster) -> None:
    text = make_text(2000)
    put_text(cluster, "/policies/input.txt", text)
    options = JobOptions(properties={"mapreduce.map.speculative": "false"})
    quota = {"policy": "absolute", "settings": {"max_q": 3}}
    with stack(cluster, quota=quota) as running, RecordsWatch(cluster) as watch:
        done = start_wordcount(cluster, "/policies/input.txt", "/policies/counted", maps=8, options=options).wait(240)
        full = refused(running, 3)
    assert read_counts(cluster, "/policies/counted") == count_words(text)
    mine = {cid for cid in watch.granted().all if application_of(cid) == done.application_id}
    lives = all_lives(cluster)
    queueable = [lives[cid] for cid in mine & watch.granted().opportunistic if cid in lives]
    assert len(mine) >= 10
    assert 3 <= len(queueable) < len(mine) - 1
    assert most_at_once(queueable) <= 3  # fewer when one is killed before the third runs
    assert full > 0, "three were held at once"


def test_a_quota_of_three_never_shows_four_running(cluster: Cluster) -> None:
    async def run() -> list[SleepTask]:
        async with job(cluster, "quota") as mine:
            tasks = mine.ask(12, 1.5)
            await mine.until_done()
            return tasks

    quota = {"policy": "absolute", "settings": {"max_q": 3}}
    before = opportunistic_at_rm(cluster)
    with stack(cluster, quota=quota) as running, RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
        full = refused(running, 3)
    opportunistic = watch.granted().opportunistic
    containers = {cid for task in tasks for cid in task.containers}
    queueable = [life for cid, life in all_lives(cluster).items() if cid in opportunistic & containers]
    assert 3 <= len(queueable) < len(containers)
    assert most_at_once(queueable) <= 3
    assert full > 0, "three were held at once"
    assert 0 < watch.opportunistic_at_rm - before <= 3


@pytest.mark.parametrize(("order", "first"), [("job_submission", "older"), pytest.param("fifo", "younger", marks=LONG)])
def test_reordering_starts_the_older_job_first(cluster: Cluster, order: str, first: str) -> None:
    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
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


SHED: Mapping[str, Any] = {"policy": "mean_sigma", "settings": {"c": 0.5, "min_wait_s": 1.0, "settle_s": 0.5}}
"""Of three nodes with waits (w, 0, 0), c = 2 allows 1.28 w: the first alone would never be shed."""
BY_LENGTH: Mapping[str, Any] = {"policy": "queue_length", "settings": {"max_length": 5, "settle_s": 0.5}}
TO_THE_FIRST: Mapping[str, Any] = {"policy": "topk_wait", "settings": {"k": 1, "locality_wait_s": 1000.0}}
"""Placed where the application asked for, however long the wait there is."""


@pytest.mark.parametrize("shed", [SHED, BY_LENGTH, pytest.param({"policy": "none"}, marks=LONG)])
def test_shedding_moves_queued_containers_off_a_loaded_node(cluster: Cluster, shed: Mapping[str, Any]) -> None:
    async def run() -> list[SleepTask]:
        async with job(cluster, "loaded") as mine:
            tasks = mine.ask(12, 4.0, hosts=(host(cluster, 0),))
            await mine.until_done()
            return tasks

    with stack(cluster, shed=shed, place=TO_THE_FIRST) as here, RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
        sheds = events(here, tasks, "shed")
    ran = [life.node for life in recorded(cluster, tasks) if life.running_s is not None]
    granted = watch.granted().opportunistic & {cid for task in tasks for cid in task.containers}
    assert len(ran) == len(tasks)
    assert len(granted) == len(tasks) + len(sheds)
    if shed["policy"] == "none":
        assert (set(ran), sheds) == ({"node1"}, [])
    else:
        assert {event["cause"] for event in sheds} == {"shed"}
        assert set(ran) > {"node1"}
        assert len(ran) - ran.count("node1") == sum(task.exits != [0] for task in tasks)
        assert all(task.exits.count(preempted_status(APP_TYPE)) <= 2 for task in tasks)


HISTORY: Mapping[str, Any] = {"policy": "history", "settings": {"peak_ratio": 0.0, "margin_ratio": 0.0}}
SLOTS_OF_A_WEEK = 672
PEAK = (3, 4, 5)


@pytest.mark.parametrize("police", [HISTORY, pytest.param({"policy": "none"}, marks=LONG)])
def test_policing_stops_queueables_before_the_peak_of_guaranteed_ones(
    cluster: Cluster, police: Mapping[str, Any]
) -> None:
    """In earlier weeks guaranteed containers used half of each node now: the other half is for queueable ones."""
    node_ids = [str(node.rpc) for node in cluster.spec.node_addresses]
    usual = [
        UseRecord(node_id, slot, 3, 256.0, 256.0, 1.0, 1.0, time.time())
        for node_id in node_ids
        for slot in range(SLOTS_OF_A_WEEK)
    ]

    runs_s = 12.0 if police["policy"] == "none" else 6.0  # six that start one after the other have to meet

    async def run(here: LocalDaemons) -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "policed") as mine:
            if police["policy"] != "none":
                await mine.until(lambda: all(limited(here, node) for node in node_ids), 60)
            tasks = mine.ask(9, runs_s)
            await mine.until(lambda: len(running(cluster, tasks)) >= NODES, 60)
            await asyncio.sleep(1.5)
            peak = [
                task  # of priorities of their own, so that each is asked for at a node of its own
                for number in range(NODES)
                for task in mine.ask(1, 3.0, priority=PEAK[number], hosts=(host(cluster, number),), strict=True)
            ]
            await mine.until_done()
            return tasks, peak

    routes = [{"match": {"priority": priority}, "policy": "only_g"} for priority in PEAK] + [{"policy": "only_q"}]
    with stack(cluster, usual, police=police, routes=routes) as here, RecordsWatch(cluster) as watch:
        tasks, peak = asyncio.run(run(here))
        killed = events(here, tasks, "killed")
    most = most_at_once(recorded(cluster, tasks))
    assert not {cid for task in peak for cid in task.containers} & watch.granted().opportunistic
    if police["policy"] == "none":
        assert most == NODES * VCORES
        assert killed
    else:
        assert most == NODES
        assert killed == []


def limited(here: LocalDaemons, node_id: str) -> bool:
    """Return whether a sidecar was told to leave a part of its node to guaranteed containers."""
    targets = here.get(f"/v1/nodes/{node_id}")["targets"]
    return targets is not None and targets["limit_q_vcores"] == 1


def running(cluster: Cluster, tasks: list[SleepTask]) -> list[Life]:
    return [life for life in recorded(cluster, tasks) if life.running_s is not None and life.over_s is None]


STEAL: Mapping[str, Any] = {"policy": "hawk", "settings": {}}


@pytest.mark.parametrize("steal", [STEAL, pytest.param({"policy": "none"}, marks=LONG)])
def test_stealing_fills_an_idle_node(cluster: Cluster, steal: Mapping[str, Any]) -> None:
    """Long tasks hold the first node, short ones wait behind them, and the two others have nothing to do."""

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "stolen") as mine:
            first = (host(cluster, 0),)
            long = mine.ask(VCORES, 25.0, priority=10, hosts=first)
            await mine.until_granted(long)
            short = mine.ask(6, 1.0, hosts=first)
            await mine.until_done(within_s=120)
            return long, short

    hints = {"rules": [{"match": {"priority": 10}, "expected_s": 60}, {"match": {"priority": 20}, "expected_s": 1}]}
    with stack(cluster, steal=steal, place=TO_THE_FIRST, estimate=hints) as here:
        long, short = asyncio.run(run())
        sheds = events(here, short, "shed")
    ran = [life for life in recorded(cluster, short) if life.running_s is not None]
    ends = [life.over_s or 0.0 for life in recorded(cluster, long)]
    before = [life for life in ran if life.running_s is not None and life.running_s < min(ends)]
    assert len(ran) == len(short)
    if steal["policy"] == "none":
        assert ({life.node for life in ran}, sheds, before) == ({"node1"}, [], [])
    else:
        assert {event["cause"] for event in sheds} == {"steal"}
        assert {life.node for life in before} == {"node2", "node3"}
        assert len(before) == len(short)


@pytest.mark.parametrize("policy", ["apollo", pytest.param("none", marks=LONG)])
def test_correction_moves_what_would_wait_longer_than_was_expected(cluster: Cluster, policy: str) -> None:
    """What runs on the first node was expected to be over long ago; the two others have nothing to do."""

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "corrected") as mine:
            first = (host(cluster, 0),)
            long = mine.ask(VCORES, 25.0, priority=10, hosts=first)
            await mine.until_granted(long)
            short = mine.ask(3, 1.0, hosts=first)
            await mine.until_done(within_s=120)
            return long, short

    hints = {"prior_weight": 1000, "rules": [{"match": {"priority": 10}, "expected_s": 3}]}
    correct = {"policy": policy} if policy == "none" else {"policy": policy, "settings": {"gain_s": 1.0}}
    with stack(cluster, correct=correct, place=TO_THE_FIRST, estimate=hints) as here:
        long, short = asyncio.run(run())
        sheds = events(here, short, "shed")
    ran = [life for life in recorded(cluster, short) if life.running_s is not None]
    end_s = min(life.over_s or 0.0 for life in recorded(cluster, long))
    before = [life.node for life in ran if life.running_s is not None and life.running_s < end_s]
    assert len(ran) == len(short)
    if policy == "none":
        assert ({life.node for life in ran}, sheds, before) == ({"node1"}, [], [])
    else:
        assert {event["cause"] for event in sheds} == {"correct"}
        assert before
        assert set(before) <= {"node2", "node3"}
