"""The execution types that applications ask for on real YARN, by what ResourceManager and NodeManagers recorded."""

from __future__ import annotations

import asyncio

import pytest

from quicksilver.cluster.cluster import Cluster
from quicksilver.workloads.nm_log import most_at_once
from quicksilver.workloads.records import OPPORTUNISTIC, Watch
from tests.real.job import Job, job
from tests.real.test_policies import all_lives, stack

pytestmark = pytest.mark.hadoop
TASKS = 3
Type = tuple[bool, bool]
TYPES: dict[Type, range] = {
    (True, True): range(TASKS, TASKS + 1),
    (True, False): range(1, 2),
    (False, True): range(1),
    (False, False): range(1, 2),
}
"""By OPPORTUNISTIC and enforced: how many of the tasks are queueable, where one container at a time may be."""


def test_each_type_is_what_the_application_takes(three_nodes: Cluster) -> None:
    """Those beyond the quota go guaranteed, or wait where OPPORTUNISTIC is enforced; the master sees its own type."""

    async def run_one(kind: Type) -> set[str]:
        opportunistic, enforced = kind
        async with job(three_nodes, f"opportunistic {opportunistic}, enforced {enforced}") as mine:
            assert isinstance(mine, Job)
            tasks = mine.ask(TASKS, 2.0, opportunistic=opportunistic, enforced=enforced)
            await mine.until_done()
        return {cid for task in tasks for cid in task.containers}

    async def run() -> list[set[str]]:
        return [await run_one(kind) for kind in TYPES]

    quota = {"policy": "absolute", "settings": {"max_q": 1}}
    with stack(three_nodes, quota=quota, routes=[{"policy": "only_q"}]), Watch(three_nodes) as watch:
        containers = dict(zip(TYPES, asyncio.run(run()), strict=True))
    granted, lives = watch.granted(), all_lives(three_nodes)
    for kind, expected in TYPES.items():
        mine = containers[kind]
        assert mine <= granted.all and len(mine) == TASKS
        queueable = mine & granted.opportunistic
        assert len(queueable) in expected, kind
        shown = {cid for cid in mine if cid in watch.seen and watch.seen[cid].execution_type == OPPORTUNISTIC}
        assert shown <= queueable and mine & watch.seen.keys() & queueable == shown, "the NodeManagers agree"
        assert most_at_once([lives[cid] for cid in queueable]) <= 1, kind
