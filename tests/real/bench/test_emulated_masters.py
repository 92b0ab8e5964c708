"""Masters with a real ResourceManager and emulated nodes: every task is done once, guaranteed or opportunistic."""

from __future__ import annotations

import asyncio
from itertools import chain
from pathlib import Path

import pytest

from quicksilver_lab.bench.emulator.masters.am import AmSettings
from quicksilver_lab.bench.emulator.masters.masters import Masters, MastersSettings
from quicksilver_lab.bench.emulator.model import REDUCE, JobRecord, JobSpec, TaskSpec
from quicksilver_lab.bench.emulator.nodes.nodes import EmulatedNodes, NodeSettings, host_of
from quicksilver_lab.bench.emulator.rm import OPPORTUNISTIC, NodeShape, RmOptions, resource_manager, until_running
from quicksilver_lab.cluster.ports import free_base_port

pytestmark = pytest.mark.hadoop

NODES, SLOTS, JOBS = 8, 2, 4


def jobs() -> list[JobSpec]:
    local = [TaskSpec(0.5, hosts=(host_of(n % NODES),)) for n in range(12)]
    reduces = [TaskSpec(0.3, stage=REDUCE)] * 2
    return [JobSpec(n, 0.3 * n, "short", (*local, *reduces), told_s=0.5) for n in range(1, JOBS + 1)]


async def story(folder: Path, port: int) -> None:
    shape, options = NodeShape(SLOTS, 1024 * SLOTS), RmOptions(base_port=port, yarn=OPPORTUNISTIC, java=())
    async with asyncio.timeout(240), resource_manager(folder, shape, options) as rm:
        nodes = EmulatedNodes(NodeSettings(vcores=SLOTS, memory_mb=1024 * SLOTS, max_queue_length=10, port=port + 100))
        try:
            await nodes.start(NODES, rm.addresses.tracker)
            await until_running(rm, NODES)
            for percent in (0, 50):
                masters = Masters(
                    rm.addresses.client,
                    rm.addresses.scheduler,
                    MastersSettings(AmSettings(opportunistic_percent=percent)),
                )
                nodes.umbilical = masters.umbilical
                records = await masters.run(jobs(), concurrent=3, stop_after_s=90.0)
                check(records, masters, percent)
        finally:
            await nodes.stop()


def check(records: list[JobRecord], masters: Masters, percent: int) -> None:
    assert [record.errors for record in records] == [[]] * JOBS
    counts = masters.counts
    assert (counts["lost"], counts["doubled"], counts["strays"], masters.living) == (0, 0, 0, 0)
    tasks = list(chain.from_iterable(record.tasks for record in records))
    assert counts["starts"] == sum(task.attempts for task in tasks) == len(tasks) + counts["killed"]
    for task in tasks:
        moments = [task.wanted_s, task.granted_s, task.started_s, task.ended_s]
        assert None not in moments and moments == sorted(moments)  # type: ignore[type-var]
        assert (task.ended_s or 0) - (task.started_s or 0) >= 0.299
    opportunistic = sum(task.opportunistic for task in tasks)
    assert opportunistic > 0 if percent else opportunistic == 0
    for record in records:
        last_map_s = max(task.ended_s or 0 for task in record.tasks[:12])
        assert all((task.granted_s or 0) > last_map_s for task in record.tasks[12:])


def test_every_task_of_every_job_is_done_once(tmp_path: Path) -> None:
    asyncio.run(story(tmp_path / "rm", free_base_port(nodes=1)))
