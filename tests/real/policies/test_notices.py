"""An application master hears of a kill, and of a node that is emptied, before it happens: on real YARN."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.yarn.yarn_client import AmClient
from quicksilver_lab.bench.las.master import APP_TYPE, container_name
from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from rm_proxy.domain.exit_codes import preempted_status
from tests.real.policies.gated import Gated
from tests.real.policies.test_preempt import ROUTES, URGENT, first_life, gated, until_running
from tests.real.test_policies import TO_THE_FIRST, events, host, recorded, stack

pytestmark = pytest.mark.hadoop
WAIT_S = 8.0
AGAIN = preempted_status(APP_TYPE)


@dataclass
class Heard:
    """What answers said, each with its time (Unix seconds)."""

    strict: list[tuple[float, str]] = field(default_factory=list)
    negotiable: list[tuple[float, str]] = field(default_factory=list)
    nodes: list[tuple[str, int, int]] = field(default_factory=list)
    """Node, state and the seconds left."""


class Listening(Gated):
    """Its master notes preemption messages and reports of nodes."""

    def __init__(self, am: AmClient, app_id: str) -> None:
        super().__init__(am, app_id)
        self.heard = Heard()

    async def _take(self, answer: y.AllocateResponseProto) -> None:
        now_s, message = time.time(), answer.preempt
        self.heard.strict += [(now_s, container_name(each.id)) for each in message.strictContract.container]
        self.heard.negotiable += [(now_s, container_name(each.id)) for each in message.contract.container]
        for each in answer.updated_nodes:
            name = f"{each.nodeId.host}:{each.nodeId.port}"
            self.heard.nodes.append((name, each.node_state, each.decommissioning_timeout))
        await super()._take(answer)


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


def test_a_master_hears_of_a_kill_before_a_guaranteed_container_takes_the_place(
    cluster: Cluster, tmp_path: Path
) -> None:
    first = (host(cluster, 0),)

    async def run() -> tuple[list[SleepTask], list[SleepTask], list[SleepTask], Heard]:
        async with (
            gated(cluster, "listening", tmp_path / "gate", Listening) as mine,
            job(cluster, "urgent") as hurried,
        ):
            assert isinstance(mine, Listening)
            older = mine.ask(1, 0.0, hosts=first)
            await until_running(cluster, mine, older)
            newer = mine.ask(1, 0.0, hosts=first)
            await until_running(cluster, mine, newer)
            urgent = hurried.ask(1, 1.0, priority=URGENT, hosts=first, strict=True)
            await hurried.until_done()
            mine.open()
            await mine.until_done()
            return older, newer, urgent, mine.heard

    policies: dict[str, Any] = {"preempt": {"policy": "kill_newest"}, "notice": {"wait_s": WAIT_S, "type": "*"}}
    with stack(cluster, routes=ROUTES, place=TO_THE_FIRST, **policies) as here:
        older, newer, urgent, heard = asyncio.run(run())
        (killed,) = events(here, newer, "killed")
        metrics = here.call("GET", f"{here.url}/metrics").text
    ((heard_s, name),) = heard.strict
    assert (name, heard.negotiable) == (newer[0].containers[0], []), "once, and of no other container"
    assert killed["cause"] == "room" and "did not end in time" in killed["reason"]
    assert killed["at_s"] - heard_s > WAIT_S / 2, "its master had most of the time"
    assert first_life(cluster, newer).killed and not any(life.killed for life in recorded(cluster, older))
    assert (newer[0].exits, older[0].exits, urgent[0].exits) == ([AGAIN, 0], [0], [0])
    assert 'quicksilver_proxy_notices_total{what="container"} 1.0' in metrics
    assert "quicksilver_proxy_queue_work_seconds_total{" in metrics


def drain(here: LocalDaemons, node_id: str, **order: Any) -> None:
    answer = here.call("POST", f"{here.url}/v1/nodes/{node_id}/drain", json={"reason": "new disk", **order})
    answer.raise_for_status()


def test_masters_hear_that_a_node_is_emptied_and_their_tasks_run_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    node, emptied = cluster.spec.node_addresses[0], 12.0

    async def run(here: LocalDaemons) -> tuple[list[SleepTask], Heard, str]:
        async with gated(cluster, "emptied", tmp_path / "gate", Listening) as mine:
            assert isinstance(mine, Listening)
            tasks = mine.ask(2, 0.0, hosts=(node.host,))
            await until_running(cluster, mine, tasks)
            (node_id,) = {
                each["id"]
                for each in await asyncio.to_thread(lambda: here.get("/v1/nodes")["items"])
                if each["id"].startswith(f"{node.host}:")
            }
            await asyncio.to_thread(drain, here, node_id, on=True, timeout_s=emptied)
            await mine.until(lambda: all(len(task.containers) == 2 for task in tasks), 120)
            await asyncio.to_thread(drain, here, node_id, on=False)
            await mine.until(lambda: len(mine.heard.nodes) == 2, 60)
            mine.open()
            await mine.until_done()
            return tasks, mine.heard, node_id

    with stack(cluster, place=TO_THE_FIRST) as here:
        tasks, heard, node_id = asyncio.run(run(here))
        causes = {event["cause"] for event in events(here, tasks, "killed")}
    ((first, state, left_s), (second, later, _)) = heard.nodes
    assert (first, second, state, later) == (node_id, node_id, y.NS_DECOMMISSIONING, y.NS_RUNNING)
    assert 1 <= left_s <= emptied
    assert causes == {"drain"} and heard.strict == []
    assert [task.exits for task in tasks] == [[AGAIN, 0], [AGAIN, 0]]
