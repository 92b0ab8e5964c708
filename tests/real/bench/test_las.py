"""The masters of bench-las with a real ResourceManager and a real NodeManager."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from quicksilver_apps.yarn.yarn_client import ContainerRefusedError
from quicksilver_lab.bench.las import gstart, modes, workload
from quicksilver_lab.bench.las.jobs import JobStage, LasJob, LasScale
from quicksilver_lab.bench.las.master import LasMaster, LasSite
from quicksilver_lab.bench.las.umbilical import opened
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(300)]

T = TypeVar("T")

SCALE = LasScale()
MODE = modes.opportunistic(SCALE)
WAIT_S = 60


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("las")
    with modes.running(MODE, folder, free_base_port(1), lambda _: None, gstart.QUEUES) as cluster:
        yield cluster


def burners(cluster: Cluster) -> list[str]:
    """Return the tasks' command lines that still are among the processes."""
    pipe, found = str(cluster.spec.workdir / "tasks.pipe"), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if pipe in words:
            found.append(" ".join(words))
    return found


def test_a_workload_runs_in_stages_and_leaves_nothing_behind(stock: Cluster) -> None:
    stages = (JobStage(20, 3, 0.3), JobStage(10, 1, 0.2))
    jobs = [LasJob(number, "small", 0.5 * number, stages) for number in range(3)]
    fifo = modes.fifo(SCALE)  # the same cluster, but guaranteed containers are asked for
    run = workload.measure(stock, fifo, jobs, workload.Pace(limit_s=WAIT_S), lambda _: None)
    for one in run.outcomes:
        assert (one.broken, one.counts["granted"], one.counts["killed"], one.counts["failed"]) == ("", 4, 0, 0)
        assert one.counts["opportunistic"] == 0
        maps, reduce = one.tasks[:3], one.tasks[3]
        assert reduce["began_s"] > max(task["ended_s"] for task in maps)
        assert one.completion_s is not None and 0.5 < one.completion_s < WAIT_S
    assert all(one.arrived_s >= job.arrives_s for one, job in zip(run.outcomes, jobs, strict=True))
    assert 0 < run.task_cores < run.busy_cores <= (os.cpu_count() or 1) + 0.1
    assert burners(stock) == []


def test_what_is_not_over_in_time_is_told(stock: Cluster) -> None:
    jobs = [LasJob(1, "small", 0.0, (JobStage(20, 1, 0.2),)), LasJob(2, "long", 0.0, (JobStage(20, 1, 1e6),))]
    run = workload.measure(stock, MODE, jobs, workload.Pace(0.2, 0.0, 8.0), lambda _: None)
    small, long = run.outcomes
    assert small.broken == "" and small.completion_s is not None
    assert small.counts["opportunistic"] == 1
    assert (long.broken, long.completion_s) == ("not over in time", None)
    assert wait_for_none(stock)


def wait_for_none(cluster: Cluster) -> bool:
    """The masters unregister when they are given up; the NodeManager then kills what is left."""
    until_s = time.monotonic() + 20
    while burners(cluster) and time.monotonic() < until_s:
        time.sleep(0.2)
    return not burners(cluster)


async def begun(master: LasMaster, number: int = 1) -> None:
    async with asyncio.timeout(WAIT_S):
        while master.alive < number:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def test_a_killed_process_is_a_failure_and_runs_again(stock: Cluster) -> None:
    async def main(where: LasSite) -> LasMaster:
        master = LasMaster(where, [JobStage(20, 1, 2.0)], name="stumbles")
        life = asyncio.create_task(master.run())
        await begun(master)
        [task] = master.tasks
        assert task.pid is not None
        os.kill(task.pid, signal.SIGKILL)
        await life
        return master

    master = asyncio.run(_with_site(stock, main))
    assert (master.counts.failed, master.counts.killed, master.broken) == (1, 0, "")
    assert "exit 137" in master.counts.reasons[0]
    assert master.tasks[0].ended_s is not None


def test_a_task_that_always_fails_breaks_its_job(stock: Cluster) -> None:
    async def main(where: LasSite) -> LasMaster:
        master = LasMaster(where, [JobStage(20, 1, 0.0)], name="fails")
        where.umbilical.command = lambda *_: "exit 3"  # type: ignore[method-assign]
        await master.run()
        return master

    master = asyncio.run(_with_site(stock, main))
    assert master.counts.failed == 4 and "exit 3" in master.broken


def test_a_node_refuses_a_container_twice(stock: Cluster) -> None:
    async def main(where: LasSite) -> str:
        starter = gstart.Starter(where)
        await starter.connect()
        try:
            container = await starter.granted()
            assert await starter.start(container) > 0
            await starter.ended(container)
            with pytest.raises(ContainerRefusedError) as refused:
                await starter.start(container)
            return str(refused.value)
        finally:
            await starter.close()

    assert "container" in asyncio.run(_with_site(stock, main))


def test_a_guaranteed_start_on_a_full_stock_node_kills_an_opportunistic_one(stock: Cluster) -> None:
    async def main(where: LasSite) -> gstart.LasStarts:
        return await gstart.starts(where, count=2, alive=2, fillers=4)

    found = asyncio.run(_with_site(stock, main))
    assert len(found.ms) == 2 and min(found.running) == 2 and found.killed >= 1
    assert min(found.ms) > 10 and max(found.ms) < 1000 * WAIT_S
    assert wait_for_none(stock)


async def _with_site(cluster: Cluster, main: Callable[[LasSite], Awaitable[T]]) -> T:
    with opened(cluster.spec.workdir / "tasks.pipe") as umbilical:
        return await main(workload.site(cluster, MODE, umbilical, workload.Pace(0.2, 0.0)))
