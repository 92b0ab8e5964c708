"""Answers that wait for news, before real masters: ids, kills of the proxy, killed applications, distributed shell."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.sleep_job import Job, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.distributed_shell import reported, start_shell
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.rest import eventually
from tests.real.conftest import NODES, VCORES

pytestmark = pytest.mark.hadoop
PLACES = NODES * VCORES
TEXT = make_text(2000)
LATE: dict[str, Any] = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
    "place": {"policy": "variance"},
    "retries_to_g": 20,
}
ALL_G: dict[str, Any] = {"queues": "*", "routes": [{"policy": "only_g"}]}


class CountingJob(Job):
    """One that counts its answers."""

    answers = 0

    async def _take(self, answer: y.AllocateResponseProto) -> None:
        self.answers += 1
        await super()._take(answer)


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    put_text(three_nodes, "/long-poll/input.txt", TEXT)
    return three_nodes


@pytest.fixture(params=["short", pytest.param("long", marks=pytest.mark.long)])
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[LocalDaemons]:
    made = LocalDaemons(cluster, {**LATE, "long_poll": request.param})
    made.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    made.start()
    try:
        yield made
    finally:
        made.stop()
    for name in ("proxy", *(node.name for node in cluster.spec.node_addresses)):
        assert "Traceback" not in made.log(name).read_text(), made.log(name)


def figures(stack: LocalDaemons) -> dict[str, float]:
    """Return how many waits ended, by why, the proxy's own calls as `own`, and the open waits as `open`."""
    text = requests.get(f"{stack.url}/metrics", timeout=10).text
    ends = re.findall(r'^quicksilver_proxy_long_poll_seconds_count\{end="([^"]+)"\} ([\d.]+)$', text, re.MULTILINE)
    own = re.findall(r'^quicksilver_proxy_allocates_total\{action="(own)"\} ([\d.]+)$', text, re.MULTILINE)
    waiting = re.findall(r"^quicksilver_proxy_waiting_(calls) ([\d.]+)$", text, re.MULTILINE)
    return {name: float(count) for name, count in [*ends, *own, *waiting]}


@pytest.mark.parametrize("policies", [LATE, ALL_G], ids=["late", "guaranteed"])
def test_news_end_waits_and_ids_are_the_resource_managers(cluster: Cluster, policies: dict[str, Any]) -> None:
    async def run() -> tuple[int, int]:
        async with job(cluster, "waits", make=CountingJob) as mine:
            assert isinstance(mine, CountingJob)
            mine.ask(2 * PLACES + 1, 1.5)
            await mine.until_done()
            return mine.answers, mine._am.response_id

    made = LocalDaemons(cluster, {**policies, "long_poll": "short"})
    made.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    made.start()
    try:
        answers, response_id = asyncio.run(run())
        seen = figures(made)
    finally:
        made.stop()
    assert seen["own"] > 0 and seen["news"] > 0
    assert seen.get("calls", 0) == 0, "nothing waits any more"
    assert response_id > answers, "answers without news were absorbed"
    assert "Traceback" not in made.log("proxy").read_text()


def test_a_job_goes_on_though_the_proxy_is_killed_while_calls_wait(cluster: Cluster, stack: LocalDaemons) -> None:
    target = f"/long-poll/counted-{time.time_ns()}"
    options = JobOptions(properties={"mapreduce.map.speculative": "false"})
    running = start_wordcount(cluster, "/long-poll/input.txt", target, maps=3 * PLACES, options=options)
    for _ in range(2):
        eventually("a waiting call", lambda: figures(stack).get("own") or None)
        stack.kill("proxy")
        stack.wait()
    done = running.wait(240)
    assert read_counts(cluster, target) == count_words(TEXT)
    assert done.failed_attempts == 0


def test_a_shell_ends_and_another_is_killed_with_asks_out(cluster: Cluster, stack: LocalDaemons) -> None:
    first = start_shell(cluster, "GUARANTEED", containers=PLACES + 2, sleep_s=2)
    application = clients.application_id(first.wait())
    assert len(reported(cluster, application, PLACES + 2)) == PLACES + 2
    second = start_shell(cluster, "GUARANTEED", containers=4 * PLACES, sleep_s=30)
    killed = eventually(
        "the second shell waits",
        lambda: next((a["id"] for a in stack.get("/v1/applications")["items"] if a["live_g"] + a["live_q"] > 1), None),
    )
    cluster.hadoop("application", "application", "-kill", killed)
    second.kill()
    eventually("its wait is over", lambda: figures(stack).get("calls") == 0 or None)
