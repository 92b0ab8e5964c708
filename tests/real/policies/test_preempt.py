"""Which queueable containers make room for a guaranteed one, by what the NodeManagers recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quicksilver_lab.bench.sleep_job import SleepJob, SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.nm_log import Life
from quicksilver_lab.workloads.records import RecordsWatch
from tests.real.policies.gated import Gated
from tests.real.test_policies import LONG, TO_THE_FIRST, events, host, recorded, running, stack

pytestmark = pytest.mark.hadoop
URGENT, SOON, LATE = 10, 20, 30
"""Priorities: of what the rules leave guaranteed, and of queueable containers that are needed sooner and later."""
ROUTES = [{"match": {"priority": URGENT}, "policy": "only_g"}, {"policy": "only_q"}]


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


class Burning(SleepJob):
    """Its tasks use all the CPU time that they get."""

    def command(self, task: SleepTask) -> str:
        return f"timeout --foreground {task.seconds:g} sh -c 'while :; do :; done'; true"


class GatedBurning(Gated):
    """Its tasks use all the CPU time that they get, until the file `gate` is there."""

    def command(self, task: SleepTask) -> str:
        return f"while [ ! -e {self.gate} ]; do :; done"


@asynccontextmanager
async def gated(cluster: Cluster, name: str, gate: Path, make: type[Gated] = Gated) -> AsyncIterator[Gated]:
    """Run a job whose tasks come to their end when it is opened."""
    async with job(cluster, name, make=make) as mine:
        assert isinstance(mine, make)
        mine.gate = gate
        yield mine


async def until_running(cluster: Cluster, mine: SleepJob, tasks: list[SleepTask]) -> None:
    await mine.until(lambda: len(running(cluster, tasks)) == len(tasks), 120)


def one_killed(cluster: Cluster, older: list[SleepTask], newer: list[SleepTask]) -> str:
    """Return which of two running containers its node killed; it did not kill the other."""
    killed = {"older": first_life(cluster, older).killed, "newer": first_life(cluster, newer).killed}
    (name,) = [name for name, was in killed.items() if was]
    return name


def first_life(cluster: Cluster, tasks: list[SleepTask]) -> Life:
    return recorded(cluster, tasks)[0]


@pytest.mark.parametrize(
    ("policy", "victim"), [("kill_least_work", "older"), pytest.param("kill_newest", "newer", marks=LONG)]
)
def test_the_container_with_the_least_work_is_killed(
    cluster: Cluster, tmp_path: Path, policy: str, victim: str
) -> None:
    """On one node the older container sleeps, and the newer one uses CPU time."""
    first = (host(cluster, 0),)

    async def run() -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with (
            gated(cluster, "sleeping", tmp_path / "gate") as sleeping,
            gated(cluster, "burning", tmp_path / "gate", GatedBurning) as burning,
            job(cluster, "urgent") as hurried,
        ):
            older = sleeping.ask(1, 0.0, hosts=first)
            await until_running(cluster, sleeping, older)
            newer = burning.ask(1, 0.0, hosts=first)
            await until_running(cluster, burning, newer)
            await asyncio.sleep(3.0)  # of CPU time, or a part of it on a busy machine
            urgent = hurried.ask(1, 1.0, priority=URGENT, hosts=first, strict=True)
            await hurried.until_done()
            sleeping.open()
            await sleeping.until_done()
            await burning.until_done()
            return older, newer, urgent

    with stack(cluster, preempt={"policy": policy}, routes=ROUTES, place=TO_THE_FIRST):
        older, newer, urgent = asyncio.run(run())
    assert one_killed(cluster, older, newer) == victim
    assert [task.exits for task in urgent] == [[0]]


@pytest.mark.parametrize(
    ("policy", "victim"), [("kill_lowest_priority", "older"), pytest.param("kill_newest", "newer", marks=LONG)]
)
def test_the_container_of_the_lowest_priority_is_killed(
    cluster: Cluster, tmp_path: Path, policy: str, victim: str
) -> None:
    """On one node the older container is the one that its application needs last."""
    first = (host(cluster, 0),)

    async def run() -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with gated(cluster, "priorities", tmp_path / "gate") as mine, job(cluster, "urgent") as hurried:
            older = mine.ask(1, 0.0, priority=LATE, hosts=first)
            await until_running(cluster, mine, older)
            newer = mine.ask(1, 0.0, priority=SOON, hosts=first)
            await until_running(cluster, mine, newer)
            urgent = hurried.ask(1, 1.0, priority=URGENT, hosts=first, strict=True)
            await hurried.until_done()
            mine.open()
            await mine.until_done()
            return older, newer, urgent

    with stack(cluster, preempt={"policy": policy}, routes=ROUTES, place=TO_THE_FIRST):
        older, newer, urgent = asyncio.run(run())
    assert one_killed(cluster, older, newer) == victim
    assert [task.exits for task in urgent] == [[0]]


@pytest.mark.parametrize("grace_s", [10.0, pytest.param(0.0, marks=LONG)])
def test_a_guaranteed_container_waits_for_one_that_ends_soon(cluster: Cluster, grace_s: float) -> None:
    """On one node the older container ends soon, and the newer one is expected to run for long: neither is killed."""
    first = (host(cluster, 0),)
    older_s = 4.0 if grace_s else 20.0  # that it runs when the other one is killed, on a busy machine too

    async def run() -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with job(cluster, "grace") as mine:
            older = mine.ask(1, older_s, priority=SOON, hosts=first)
            await until_running(cluster, mine, older)
            newer = mine.ask(1, older_s + 5.0, priority=LATE, hosts=first)
            await until_running(cluster, mine, newer)
            urgent = mine.ask(1, 1.0, priority=URGENT, hosts=first, strict=True)
            await mine.until_done()
            return older, newer, urgent

    preempt = {"policy": "kill_newest", "settings": {"grace_s": grace_s}}
    rules = [{"match": {"priority": LATE}, "expected_s": 60}, {"expected_s": 4}]
    expected = {"prior_weight": 1000, "rules": rules}
    with (
        stack(cluster, preempt=preempt, routes=ROUTES, place=TO_THE_FIRST, estimate=expected),
        RecordsWatch(cluster) as watch,
    ):
        older, newer, urgent = asyncio.run(run())
    (guaranteed,), ending = recorded(cluster, urgent), first_life(cluster, older)
    assert not {cid for task in urgent for cid in task.containers} & watch.granted().opportunistic
    waited = (guaranteed.running_s or 0.0) >= (ending.over_s or 0.0)
    if grace_s:
        assert not any(life.killed for life in recorded(cluster, [*older, *newer]))
        assert waited
    else:
        assert one_killed(cluster, older, newer) == "newer"
        assert not waited


@pytest.mark.parametrize(
    ("policy", "by"), [("none", "NodeManager"), pytest.param("kill_newest", "sidecar", marks=LONG)]
)
def test_without_a_policy_the_nodemanager_makes_room(cluster: Cluster, tmp_path: Path, policy: str, by: str) -> None:
    """It kills the newest opportunistic container itself, and writes so."""
    first = (host(cluster, 0),)

    async def run() -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with gated(cluster, "by itself", tmp_path / "gate") as mine, job(cluster, "urgent") as hurried:
            older = mine.ask(1, 0.0, priority=SOON, hosts=first)
            await until_running(cluster, mine, older)
            newer = mine.ask(1, 0.0, priority=LATE, hosts=first)
            await until_running(cluster, mine, newer)
            urgent = hurried.ask(1, 1.0, priority=URGENT, hosts=first, strict=True)
            await hurried.until_done()
            mine.open()
            await mine.until_done()
            return older, newer, urgent

    with stack(cluster, preempt={"policy": policy}, routes=ROUTES, place=TO_THE_FIRST) as here:
        older, newer, urgent = asyncio.run(run())
        killed = events(here, newer, "killed")
    assert one_killed(cluster, older, newer) == "newer"
    assert [task.exits for task in urgent] == [[0]]
    log = cluster.log("nodemanager-node1").read_text(errors="replace")
    itself = f"{newer[0].containers[0]} will be killed to start the execution of guaranteed container"
    assert (itself in log, bool(killed)) == ((True, False) if by == "NodeManager" else (False, True))
