"""Running queueable containers become guaranteed on real YARN, and nothing kills them any more."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from policies.model import Resources
from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.distributed_shell import reported, start_shell
from quicksilver_lab.workloads.records import GUARANTEED, RecordsWatch
from quicksilver_lab.workloads.rest import get_json
from rm_proxy.yarn.client import YarnRest
from rm_proxy.yarn.models import YarnQueue
from tests.real.conftest import NODES, VCORES
from tests.real.policies.gated import Gated
from tests.real.test_policies import running

pytestmark = pytest.mark.hadoop
TASK_MB = 256
URGENT = 10
"""Priority of what the rules leave guaranteed."""
BASE: dict[str, Any] = {
    "queues": "*",
    "routes": [{"match": {"priority": URGENT}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
    "retries_to_g": 20,
    "estimate": {"default_s": 60},
}
PROMOTE: dict[str, Any] = {"promote": {"policy": "on_start", "settings": {"min_remaining_s": 1}}}


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


@pytest.fixture
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[LocalDaemons]:
    made = LocalDaemons(cluster, {**BASE, **request.param})
    made.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    made.start()
    try:
        yield made
    finally:
        made.stop()
    for name in ("proxy", *(node.name for node in cluster.spec.node_addresses)):
        assert "Traceback" not in made.log(name).read_text(), made.log(name)


def promotions(stack: LocalDaemons) -> dict[str, float]:
    """Return the proxy's count of promotions by result."""
    text = requests.get(f"{stack.url}/metrics", timeout=10).text
    found = re.findall(r'^quicksilver_proxy_promotions_total\{result="(\w+)"\} ([\d.]+)$', text, re.MULTILINE)
    return {result: float(count) for result, count in found}


def rm_type(cluster: Cluster, container: str) -> str:
    """Return the execution type of a container as the ResourceManager tells its clients."""
    told = cluster.hadoop("application", "container", "-status", container).stdout
    found = re.search(r"Execution-Type : (\w+)", told)
    assert found is not None, told
    return found[1]


def rm_used_mb(cluster: Cluster) -> int:
    """Return what guaranteed containers use of all nodes, by the ResourceManager."""
    nodes = get_json(f"{cluster.rm_rest}/ws/v1/cluster/nodes")["nodes"]["node"]
    return sum(node["usedMemoryMB"] for node in nodes)


def nm_types(cluster: Cluster) -> dict[str, str]:
    """Return the execution types of the containers that NodeManagers show."""
    found: dict[str, str] = {}
    for node in cluster.spec.node_addresses:
        listed = get_json(f"{node.web.url}/ws/v1/node/containers").get("containers") or {}
        found |= {one["id"]: one["executionType"] for one in listed.get("container", [])}
    return found


async def until(true: Any, within_s: float) -> float:
    """Wait for something in a thread of its own; returns how long it took, in seconds."""
    begun_s = time.monotonic()
    while not await asyncio.to_thread(true):
        assert time.monotonic() - begun_s < within_s, f"not within {within_s:g} s"
        await asyncio.sleep(0.1)
    return time.monotonic() - begun_s


@pytest.mark.parametrize("stack", [PROMOTE], indirect=True)
def test_resourcemanager_and_nodemanagers_show_guaranteed(
    cluster: Cluster, stack: LocalDaemons, tmp_path: Path
) -> None:
    count = NODES * VCORES

    async def run() -> list[SleepTask]:
        async with job(cluster, "promoted", make=Gated) as mine:
            assert isinstance(mine, Gated)
            mine.gate = tmp_path / "over"
            tasks = mine.ask(count, 0.0)
            await mine.until_granted(tasks)
            begun_s = time.monotonic()
            await until(lambda: rm_used_mb(cluster) == count * TASK_MB, 60)
            at_rm_s = time.monotonic() - begun_s
            names = {task.containers[0] for task in tasks}
            guaranteed = dict.fromkeys(names, GUARANTEED)
            await until(lambda: nm_types(cluster) == guaranteed, 60)
            at_nm_s = time.monotonic() - begun_s
            shown = {c["container_id"]: c["kind"] for n in await _nodes(stack) for c in n["containers"]}
            assert shown == dict.fromkeys(names, "G"), "the sidecars"
            assert await asyncio.to_thread(rm_type, cluster, min(names)) == GUARANTEED
            print(json.dumps({"at_rm_s": round(at_rm_s, 2), "at_nm_s": round(at_nm_s, 2)}))
            mine.open()
            await mine.until_done()
            return tasks

    with RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
    names = {task.containers[0] for task in tasks}
    assert watch.granted().opportunistic >= names, "they were granted as OPPORTUNISTIC"
    assert [task.exits for task in tasks] == [[0]] * count
    assert promotions(stack) == {"asked": count, "promoted": count}
    assert rm_used_mb(cluster) == 0, "nothing is left behind"
    log = watch.rm_log.read_text(errors="replace")
    assert "Promotion Update requests" in log
    assert not [line for line in log.splitlines() if "Invalid event" in line and any(name in line for name in names)]
    queue = next(q for q in asyncio.run(_queues(cluster.rm_rest)) if q.path == "root.default")
    assert queue.used == Resources()


async def _queues(rm_rest: str) -> list[YarnQueue]:
    yarn = YarnRest(rm_rest)
    try:
        return await yarn.queues()
    finally:
        await yarn.close()


async def _nodes(stack: LocalDaemons) -> list[dict[str, Any]]:
    def read() -> list[dict[str, Any]]:
        return [stack.get(f"/v1/nodes/{node['id']}") for node in stack.get("/v1/nodes")["items"]]

    await until(lambda: all(c["kind"] == "G" for node in read() for c in node["containers"]), 60)
    return read()


@pytest.mark.parametrize(("stack", "killed"), [({}, True), (PROMOTE, False)], indirect=["stack"])
def test_what_is_promoted_is_not_killed_for_guaranteed_ones(
    cluster: Cluster, stack: LocalDaemons, tmp_path: Path, killed: bool
) -> None:
    """The first job's tasks run until the second one has what it wants, or has waited for it for a while."""
    count = NODES * VCORES

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "first", make=Gated) as first, job(cluster, "second") as second:
            assert isinstance(first, Gated)
            first.gate = tmp_path / "over"
            tasks = first.ask(count, 2.0)
            await first.until(lambda: len(running(cluster, tasks)) == count, 120)
            if not killed:
                await until(lambda: rm_used_mb(cluster) == count * TASK_MB, 60)
            urgent = second.ask(2, 1.0, priority=URGENT)
            if killed:
                await second.until_done()
            else:
                await asyncio.sleep(3)
            first.open()
            await second.until_done()
            await first.until_done()
            return tasks, urgent

    tasks, urgent = asyncio.run(run())
    assert [task.exits for task in urgent] == [[0], [0]]
    lost = [status for task in tasks for status in task.exits[:-1]]
    assert (len(lost) > 0) == killed, lost
    assert rm_used_mb(cluster) == 0


@pytest.mark.parametrize("stack", [PROMOTE], indirect=True)
def test_unmodified_distributed_shell_succeeds(cluster: Cluster, stack: LocalDaemons) -> None:
    containers = 2
    with RecordsWatch(cluster) as watch:
        client = start_shell(cluster, GUARANTEED, containers, sleep_s=12)
        application = clients.application_id(client.wait(120))
    tally = watch.tally(application)
    assert tally.ran == containers == tally.rm_opportunistic
    assert tally.granted == 2 * containers, "the ResourceManager plans a promotion as one container more"
    assert tally.nm_opportunistic == 0, "NodeManagers showed each as GUARANTEED in the end"
    assert len(tally.disagreeing) == containers, "granted as OPPORTUNISTIC"
    assert len(reported(cluster, application, containers)) == containers
    assert promotions(stack) == {"asked": containers, "promoted": containers}
    mine = min(watch.granted().opportunistic)
    assert stack.get(f"/v1/containers/{mine}")["decision"]["kind"] == "Q", "as it was granted"
    choices = stack.get(f"/v1/choices?container={mine}&slot=promote")["items"]
    assert [one["chosen"] for one in choices] == ["promoted", "asked"], "the newest first"
