"""Sidecars that are killed while real containers wait, run and stand still: nothing is lost, doubled, or limited."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from typing import Any

import pytest
import requests

from quicksilver_lab.bench.las.modes import las_policies
from quicksilver_lab.bench.sleep_job import SYSTEM, SleepJob, job
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
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.run_records import measure
from tests.real.requester import SCALE, burner, requester
from tests.real.test_preemption import Node, until
from tests.sidecar.resizer.containers import needs_cgroup1

pytestmark = pytest.mark.hadoop
TEXT = make_text(2000)
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false", "mapreduce.reduce.speculative": "false"})
ALL_Q: dict[str, Any] = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
BACK_WITHIN_S = 20.0
"""With eight busy neighbours on two cores; an idle machine takes a second or two."""


def counted(stack: LocalDaemons, cluster: Cluster) -> dict[str, int]:
    """Return how many containers the node's sidecar has, by state."""
    url = f"{stack.sidecar_rest(cluster.spec.node_addresses[0]).url}/v1/containers"
    found: dict[str, int] = {}
    try:
        for row in requests.get(url, timeout=10).json():
            found[row["state"]] = found.get(row["state"], 0) + 1
    except requests.RequestException:
        return {}
    return found


async def kill(stack: LocalDaemons, name: str, address: Any) -> float:
    """Kill a sidecar; return after how many seconds its REST answers again."""
    gone = stack.kill(name)
    begun_s = time.monotonic()
    url = f"{stack.sidecar_rest(address).url}/v1/node"
    while True:
        try:
            await asyncio.to_thread(requests.get, url, timeout=BACK_WITHIN_S)
        except requests.ConnectionError:  # one that was open is cut; the next one waits in the backlog
            await asyncio.sleep(0.005)
            continue
        if stack.pid(name) not in (None, gone):
            break
    took_s = time.monotonic() - begun_s
    assert took_s < BACK_WITHIN_S
    return took_s


async def ends_well(asked: SleepJob) -> None:
    """Wait until all is done; a task ends as preempted at most, and once."""
    await asked.until_done(within_s=120)
    codes = {code for task in asked.tasks for code in task.exits}
    assert codes <= SYSTEM | {0}
    assert all(task.exits.count(0) == 1 for task in asked.tasks)
    assert all(len(task.containers) == len(task.exits) for task in asked.tasks)


def test_held_and_running_ones_survive_kills_of_their_sidecar(one_node: Cluster) -> None:
    stack = LocalDaemons(one_node, ALL_Q, sidecar={"vcores": 2, "resizer": "none"}, standby=True)
    address = one_node.spec.node_addresses[0]

    async def run() -> None:
        took = []
        async with job(one_node, "restart") as asked:
            tasks = asked.ask(10, 5.0)
            await asked.until_granted(tasks[:6])
            for _ in range(3):
                if not counted(stack, one_node).get("waiting"):  # on a busy machine all may be done by now
                    asked.ask(6, 5.0)
                await until(lambda: counted(stack, one_node).get("waiting", 0) >= 1, "some wait", 120)
                before = counted(stack, one_node)
                took.append(await kill(stack, "node1", address))
                print(f"killed with {before}, back after {took[-1]:.2f} s with {counted(stack, one_node)}")
            await ends_well(asked)
            print(f"sidecar killed, answers again: p50 {statistics.median(took):.2f} s, max {max(took):.2f} s")
            assert any(len(task.exits) > 1 for task in asked.tasks), "none was held and asked for again"
        assert counted(stack, one_node) == {}

    stack.start()
    try:
        asyncio.run(run())
    finally:
        stack.stop()
    log = stack.log("node1").read_text()
    assert log.count("state recovered from the journal") == 3, log
    assert "Traceback" not in log, log


@pytest.mark.cgroup
def test_shrunk_ones_are_taken_over_with_what_they_attained(one_node: Cluster) -> None:
    needs_cgroup1()
    parent = f"quicksilver-restart-{os.getpid()}"
    stack = LocalDaemons(one_node, las_policies(SCALE), sidecar={"vcores": 2, "cgroup": parent, "resizer": "cgroup1"})
    node = Node(one_node, stack)
    node.parent = node.parent.parent.parent / parent / node.parent.name

    async def run() -> None:
        async with requester(one_node, "restart") as am:
            names = await am.run(*[burner(6.0)] * 6)
            await until(lambda: len(node.quotas()) == 6 and len(node.shrunk()) >= 3, "half of six are shrunk")
            await asyncio.sleep(6)  # what was attained is written each five seconds
            before = {row["container_id"]: row["attained_s"] for row in node.get("/v1/containers")}
            await kill(stack, "node1", node.address)
            await until(lambda: len(node.quotas()) == 6 and len(node.shrunk()) >= 3, "they are shrunk again", 60)
            await until(
                lambda: None not in {row["attained_s"] for row in node.get("/v1/containers")}, "they are attached"
            )
            shown = {row["container_id"]: row for row in node.get("/v1/containers")}
            assert set(shown) == set(names)
            assert {row["kind"] for row in shown.values()} == {"Q"}
            assert all(row["attained_s"] > before[name] - 3 for name, row in shown.items() if before[name])
            assert sum(row["times_shrunk"] for row in shown.values()) > 0
            victim = names[0]
            await am.stop(victim)
            await am.until_ended(*names)
            assert [am.ended[name].exit_status for name in names[1:]] == [0] * 5

    stack.start()
    try:
        asyncio.run(run())
    finally:
        stack.stop()
    assert not [p for p in (node.parent.parent, *node.groups()) if p.is_dir()]
    assert "Traceback" not in stack.log("node1").read_text()


@pytest.fixture
def three(overlay_cluster: Cluster) -> Cluster:
    put_text(overlay_cluster, "/restart/input.txt", TEXT)
    return overlay_cluster


@pytest.mark.long
def test_a_mapreduce_job_does_not_notice(three: Cluster) -> None:
    stack = LocalDaemons(three, ALL_Q)
    stack.start()
    killed: list[str] = []
    names = [node.name for node in three.spec.node_addresses]
    target = f"/restart/out-{time.time_ns()}"

    def one() -> None:
        name = names[len(killed) % len(names)]
        if len(killed) < 6 and stack.pid(name) is not None:
            stack.kill(name)
            killed.append(name)

    try:
        with RecordsWatch(three) as watch:
            running = start_wordcount(three, "/restart/input.txt", target, maps=12, options=OPTIONS)
            result = running.wait(timeout_s=230, each=one)
        assert read_counts(three, target) == count_words(TEXT)
        assert len(killed) == 6
        assert result.failed_attempts == 0
        way = measure(three, "quicksilver", result, watch, "")
        assert way.disagreeing == ()
        print(f"{len(killed)} kills, {result.killed_attempts} attempts asked for again, {result.job_s:.1f} s")
    finally:
        stack.stop()
    for name in names:
        assert "Traceback" not in stack.log(name).read_text()
