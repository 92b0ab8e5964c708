"""Places in the queues of nodes in place of containers, by what the NodeManagers recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from quicksilver_lab.bench.las.master import title
from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.nm_log import Life
from tests.real.conftest import NODES, VCORES
from tests.real.policies.gated import Gated
from tests.real.test_policies import host, recorded, stack

pytestmark = pytest.mark.hadoop
CLASSES: Mapping[str, Any] = {
    "classify": {"policy": "task_time", "settings": {"cutoff_s": 5.0}},
    "order": {"policy": "fifo"},
    "place": {"policy": "late"},
    "estimate": {
        "rules": [
            {"match": {"name": title("long")}, "expected_s": 12},
            {"match": {"name": title("busy")}, "expected_s": 4},
            {"match": {"name": title("short")}, "expected_s": 1},
        ]
    },
}
ONE_EACH: Mapping[str, Any] = {"probe": {"policy": "batch", "settings": {"ratio": 1.0}}}
STICKY: Mapping[str, Any] = {"probe": {"policy": "batch", "settings": {"ratio": 1.0, "sticky": True}}}
STEALING: Mapping[str, Any] = {"steal": {"policy": "hawk", "settings": {"idle_s": 0.0}}}


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


async def short_behind_long(cluster: Cluster, gate: Path, at_once: int) -> tuple[list[SleepTask], list[SleepTask]]:
    """Fill the first node, the others with long tasks, then ask for as many short tasks as all nodes run at a time.

    The first node comes free when these wait, the others once `at_once` of them are done. Under `batch` with one probe
    for each task every node has the same number of probes.
    """
    async with job(cluster, "busy", make=Gated) as busy, job(cluster, "long", make=Gated) as long:
        assert isinstance(busy, Gated) and isinstance(long, Gated)
        busy.gate, long.gate = gate.with_name("first"), gate
        first = busy.ask(VCORES, 0.5, hosts=(host(cluster, 0),), strict=True)
        await busy.until_granted(first)
        wide = long.ask((NODES - 1) * VCORES, 0.5)
        await long.until_granted(wide)
        async with job(cluster, "short") as short:
            quick = short.ask(NODES * VCORES, 0.5)
            await asyncio.sleep(1.0)  # some heartbeats
            busy.open()
            await short.until(lambda: sum(task.done for task in quick) >= at_once, 120)
            long.open()
            await short.until_done()
            await busy.until_done()
            await long.until_done()
            return wide, quick


def ran(cluster: Cluster, tasks: list[SleepTask]) -> list[Life]:
    lives = [life for life in recorded(cluster, tasks) if life.running_s is not None]
    assert len(lives) == len(tasks)
    return lives


@pytest.mark.parametrize(
    ("policies", "at_once"),
    [
        pytest.param({**ONE_EACH, **STEALING}, NODES * VCORES, id="an idle node takes them over"),
        pytest.param(STICKY, NODES * VCORES, id="a probe is served again"),
        pytest.param({"probe": {"policy": "succinct"}}, NODES * VCORES, id="none waits behind a long one"),
        pytest.param(ONE_EACH, VCORES, id="probes alone", marks=pytest.mark.long),
    ],
)
def test_short_tasks_and_long_ones(cluster: Cluster, tmp_path: Path, policies: Mapping[str, Any], at_once: int) -> None:
    with stack(cluster, **{**CLASSES, **policies}):
        wide, quick = asyncio.run(short_behind_long(cluster, tmp_path / "gate", at_once))
    of_long, of_short = ran(cluster, wide), ran(cluster, quick)
    assert {life.node for life in of_long} == {f"node{number}" for number in range(2, NODES + 1)}
    first_end = min(life.over_s or 0.0 for life in of_long)
    early = [life for life in of_short if (life.running_s or 0.0) < first_end]
    assert len(early) == at_once
    assert {life.node for life in early} == {"node1"}
    assert all(task.exits == [0] for task in [*wide, *quick]), "no attempt was lost"


EXPECTED: Mapping[str, Any] = {
    "prior_weight": 1000,
    "rules": [
        {"match": {"name": title(name)}, "expected_s": s} for name, s in (("late", 3), ("early", 30), ("waits", 2))
    ],
}
"""Of which the first two are wrong."""


async def behind_late(cluster: Cluster, gate: Path, moves: bool) -> tuple[list[SleepTask], list[SleepTask]]:
    """Have tasks wait at the first node, behind others that take longer than expected while other nodes come free.

    What is ahead ends once the tasks are done, if these move; else once the other nodes are free.
    """
    async with job(cluster, "late", make=Gated) as late, job(cluster, "early") as early:
        assert isinstance(late, Gated)
        late.gate = gate
        ahead = late.ask(VCORES, 0.5, hosts=(host(cluster, 0),), strict=True)
        await late.until_granted(ahead)
        await early.until_granted(early.ask((NODES - 1) * VCORES, 5.0))
        async with job(cluster, "waits") as waits:
            tasks = waits.ask(VCORES, 1.0)
            await (waits if moves else early).until_done()
            await asyncio.sleep(0.0 if moves else 3.0)  # some rounds, in which they might move
            late.open()
            for each in (waits, early, late):
                await each.until_done()
            return ahead, tasks


@pytest.mark.parametrize("policy", ["apollo", pytest.param("none", marks=pytest.mark.long)])
def test_places_move_where_their_wait_grew(cluster: Cluster, tmp_path: Path, policy: str) -> None:
    with stack(
        cluster,
        probe={"policy": "completion_time", "settings": {"noise_s": 0.1}},
        place={"policy": "completion_time", "settings": {"early": False}},
        correct={"policy": policy},
        order={"policy": "fifo"},
        estimate=EXPECTED,
    ):
        ahead, tasks = asyncio.run(behind_late(cluster, tmp_path / "gate", policy != "none"))
    first_end = min(life.over_s or 0.0 for life in ran(cluster, ahead))
    moved = ran(cluster, tasks)
    early = [life for life in moved if (life.running_s or 0.0) < first_end]
    if policy == "none":
        assert ({life.node for life in moved}, early) == ({"node1"}, [])
    else:
        assert {life.node for life in moved} <= {"node2", "node3"}
        assert len(early) == len(moved)
    assert all(task.exits == [0] for task in tasks), "no attempt was lost"
