"""Nodes that are kept for short jobs, and gaps that smaller containers fill, by what the NodeManagers recorded."""

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
KEPT: Mapping[str, Any] = {
    "classify": {"policy": "task_time", "settings": {"cutoff_s": 5.0}},
    "partition": {"policy": "short_only", "settings": {"ratio": 0.34}},
    "estimate": {
        "rules": [
            {"match": {"name": title("long")}, "expected_s": 20},
            {"match": {"name": title("short")}, "expected_s": 1},
        ]
    },
}


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


async def long_and_short(cluster: Cluster, gate: Path) -> tuple[list[SleepTask], list[SleepTask]]:
    """Run a job that wants more than the cluster's slots for 8 s each, and a short one that comes when it has begun.

    The tasks of the long job begin their 8 s when there is the file `gate`: after the short one unless it is there now.
    """
    async with job(cluster, "long", make=Gated) as long:
        assert isinstance(long, Gated)
        long.gate = gate
        wide = long.ask(NODES * VCORES + 2, 8.0)
        await long.until(lambda: sum(bool(task.containers) for task in wide) >= (NODES - 1) * VCORES, 120)
        async with job(cluster, "short") as short:
            quick = short.ask(VCORES, 0.5)
            await short.until_done()
            long.open()
            await long.until_done()
            return wide, quick


def ran(cluster: Cluster, tasks: list[SleepTask]) -> list[Life]:
    lives = [life for life in recorded(cluster, tasks) if life.running_s is not None]
    assert len(lives) == len(tasks)
    return lives


@pytest.mark.parametrize("route", ["only_g", "only_q"])
@pytest.mark.parametrize("kept", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_long_job_stays_off_the_nodes_that_are_kept_for_short_ones(
    cluster: Cluster, tmp_path: Path, route: str, kept: bool
) -> None:
    gate = tmp_path / "over"
    if not kept:
        gate.touch()  # the short job can only run after the long one's first tasks
    policies = KEPT if kept else {"estimate": KEPT["estimate"]}
    with stack(cluster, routes=[{"policy": route}], place={"policy": "late"}, **policies):
        wide, quick = asyncio.run(long_and_short(cluster, gate))
    of_long, of_short = ran(cluster, wide), ran(cluster, quick)
    first_end = min(life.over_s or 0.0 for life in of_long)
    at_once = [life for life in of_short if (life.running_s or 0.0) < first_end]
    if kept:
        assert len({life.node for life in of_long}) == NODES - 1
        assert len(at_once) == VCORES, "the short job found its node empty"
        assert not {life.node for life in at_once} & {life.node for life in of_long}
    else:
        assert len({life.node for life in of_long}) == NODES
        assert not at_once, "all nodes were full of long tasks"
    assert all(task.exits == [0] for task in [*wide, *quick])


@pytest.mark.parametrize("policy", ["backfill", pytest.param("none", marks=pytest.mark.long)])
def test_a_small_container_fills_the_gap_before_a_large_one(cluster: Cluster, policy: str) -> None:
    """On one node: half of the memory runs for 8 s, all is wanted next, and a small one comes last."""
    whole_mb, half_mb = 3072, 2048

    async def run() -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with job(cluster, "gap") as mine:
            first = (host(cluster, 0),)
            running = mine.ask(1, 8.0, priority=10, hosts=first, memory_mb=half_mb)
            await mine.until_granted(running)
            await asyncio.sleep(1.0)
            large = mine.ask(1, 1.0, priority=11, hosts=first, memory_mb=whole_mb)
            await mine.until_granted(large)
            small = mine.ask(1, 1.0, priority=12, hosts=first)
            await mine.until_done()
            return running, large, small

    expected = [(10, 8), (11, 1), (12, 1)]
    hints = {"rules": [{"match": {"priority": priority}, "expected_s": seconds} for priority, seconds in expected]}
    stay = {"policy": "topk_wait", "settings": {"k": 1, "locality_wait_s": 1000.0}}
    settings = {"order": {"policy": "fifo"}, "fill": {"policy": policy}, "place": stay, "estimate": hints}
    with stack(cluster, **settings):
        running, large, small = asyncio.run(run())
    (before,), (big,), (little,) = (ran(cluster, tasks) for tasks in (running, large, small))
    assert {before.node, big.node, little.node} == {"node1"}
    assert (big.running_s or 0.0) >= (before.over_s or 0.0), "there was no room for it"
    filled = (little.running_s or 0.0) < (before.over_s or 0.0)
    assert filled == (policy == "backfill")
    assert all(task.exits == [0] for task in [*running, *large, *small])
