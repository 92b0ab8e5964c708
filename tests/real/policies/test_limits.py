"""How much of a node queueable containers use, and which of them become guaranteed, by what YARN recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quicksilver_lab.bench.sleep_job import MEMORY_MB, SleepTask, all_lives, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.nm_log import most_at_once
from quicksilver_lab.workloads.records import GUARANTEED, RecordsWatch
from tests.real.conftest import NODES, VCORES
from tests.real.policies.gated import Gated
from tests.real.policies.test_orders_and_quotas import queueable
from tests.real.test_policies import LONG, recorded, running, stack

pytestmark = pytest.mark.hadoop
NODE_MB = 4096
URGENT = 10
"""Priority of what the rules leave guaranteed."""
ROUTES = [{"match": {"priority": URGENT}, "policy": "only_g"}, {"policy": "only_q"}]


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


@pytest.mark.parametrize("policy", ["memory_limit", pytest.param("none", marks=LONG)])
def test_queueable_containers_keep_to_a_part_of_the_memory_of_a_node(cluster: Cluster, policy: str) -> None:
    """The part has room for one container: a node runs one at a time, and one twice as large goes guaranteed."""
    ratio = 1.5 * MEMORY_MB / NODE_MB
    limit_mb = int(NODE_MB * ratio)

    async def run(here: LocalDaemons) -> dict[str, list[SleepTask]]:
        nodes = [str(node.rpc) for node in cluster.spec.node_addresses]
        async with job(cluster, "limited") as mine:
            if policy != "none":
                known = [(here.get(f"/v1/nodes/{node}")["targets"] or {}).get("limit_q_mb") for node in nodes]
                assert known == [limit_mb] * NODES
            tasks = mine.ask(3 * NODES, 1.5)
            await mine.until_done(tasks)
            large = mine.ask(1, 0.5, priority=30, memory_mb=2 * MEMORY_MB)
            guaranteed = mine.ask(NODES * VCORES, 1.5, priority=URGENT)
            await mine.until_done()
            return {"small": tasks, "large": large, "guaranteed": guaranteed}

    police = {"policy": policy, **({"settings": {"max_ratio": ratio}} if policy != "none" else {})}
    with stack(cluster, police=police, routes=ROUTES) as here, RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run(here))
    small, large = queueable(cluster, watch, tasks["small"]), queueable(cluster, watch, tasks["large"])
    of_node = {life.node: most_at_once(each for each in small if each.node == life.node) for life in small}
    assert len(small) == 3 * NODES
    assert most_at_once(recorded(cluster, tasks["guaranteed"])) > NODES, "guaranteed containers have no limit"
    if policy == "none":
        assert max(of_node.values()) == VCORES
        assert [life.killed for life in large].count(False) == 1  # it may have had to give way to a guaranteed one
    else:
        assert of_node == {f"node{number}": 1 for number in range(1, NODES + 1)}
        assert large == []


PROMOTE = {
    "when_room": {"fill_ratio": 0.5, "min_ran_s": 1.0},
    "token": {"job_tokens": 2},
    "on_start": {},
    "none": {},
}


@pytest.mark.parametrize(
    ("policy", "promoted"),
    [
        ("when_room", NODES * VCORES // 2),
        ("token", 2),
        pytest.param("on_start", NODES * VCORES, marks=LONG),
        pytest.param("none", 0, marks=LONG),
    ],
)
def test_as_many_become_guaranteed_as_the_policy_has_room_for(
    cluster: Cluster, tmp_path: Path, policy: str, promoted: int
) -> None:
    """All slots run queueable containers, as long as it takes; `when_room` may fill half of the YARN queue."""

    def guaranteed() -> int:
        return sum(one.execution_type == GUARANTEED for one in watch.seen.values())

    async def run() -> list[SleepTask]:
        async with job(cluster, "promoted", make=Gated) as mine:
            assert isinstance(mine, Gated)
            mine.gate = tmp_path / "over"
            tasks = mine.ask(NODES * VCORES, 0.0)
            await mine.until(lambda: len(running(cluster, tasks)) == len(tasks), 120)
            await mine.until(lambda: guaranteed() >= promoted, 120)
            await asyncio.sleep(5.0)  # for one too many to show
            mine.open()
            await mine.until_done()
            return tasks

    promote = {"policy": policy, "settings": PROMOTE[policy]}
    estimate = {"default_s": 60}
    with stack(cluster, promote=promote, estimate=estimate) as _, RecordsWatch(cluster) as watch:
        tasks = asyncio.run(run())
    names = {task.containers[0] for task in tasks}
    assert [task.exits for task in tasks] == [[0]] * len(tasks)
    assert watch.granted().opportunistic >= names, "each was granted as OPPORTUNISTIC"
    assert names <= watch.seen.keys() & all_lives(cluster).keys()
    assert sum(watch.seen[name].execution_type == GUARANTEED for name in names) == promoted
