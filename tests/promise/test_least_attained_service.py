"""Which container of a node gives way under `policies: {}`, and for how long (Kairos, thesis §4.3.2 and §4.6)."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from quicksilver_lab.bench.sleep_job import SleepJob, SleepTask, job
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from tests.promise.conftest import CORES
from tests.promise.observing import LONG, WITHIN_S, NodeWatch, lives

pytestmark = [pytest.mark.promise, pytest.mark.hadoop]
QUANTUM_S: Final = 10.0
STARVE_QUANTA: Final = 3
"""Of the default preset: `preempt: las`, settings `quantum_s` and `starve_quanta`."""
EARLY_S: Final = 0.5
"""What is seen of a node is up to so much older than the moment when it is seen."""
BURNS, SLEEPS, WAITS = 10, 11, 20
"""Priorities."""


class Mixed(SleepJob):
    """A job whose tasks of priority BURNS use all the CPU time that they get."""

    def command(self, task: SleepTask) -> str:
        if task.priority != BURNS:
            return super().command(task)
        return f"timeout --foreground {task.seconds:g} sh -c 'while :; do :; done'; true"


def test_who_gives_way_and_for_how_long(scheduling: LocalDaemons) -> None:
    """Two long jobs burn on a node each, and short ones come to both: `swaps` on the first, `starves` on the second."""

    async def run() -> list[SleepTask]:
        with NodeWatch(scheduling, 0) as first, NodeWatch(scheduling, 1) as second:
            async with (
                job(scheduling.cluster, "burns", make=Mixed, tags=LONG) as burning,
                job(scheduling.cluster, "starves", make=Mixed, tags=LONG) as starving,
            ):
                return await stories(scheduling, burning, starving, first, second)

    tasks = asyncio.run(run())
    assert len(lives(scheduling.cluster, tasks)) == len(tasks)
    assert all(task.exits == [] for task in tasks), "none was killed to make room"


async def stories(
    stack: LocalDaemons, one: SleepJob, two: SleepJob, first: NodeWatch, second: NodeWatch
) -> list[SleepTask]:
    """Fill all nodes, the first two with what the stories need, and tell both stories at the same time."""
    hosts = [address.host for address in stack.cluster.spec.node_addresses]
    burning = one.ask(1, 300.0, priority=BURNS, hosts=hosts[:1])
    beside = one.ask(CORES, 300.0, priority=SLEEPS, hosts=hosts[2:])
    starving = two.ask(1, 300.0, priority=BURNS, hosts=hosts[1:2])
    older = await started(one, first, burning[0])
    starves_here = await started(two, second, starving[0])
    await one.until(lambda: min(first.attained_s(older), second.attained_s(starves_here)) >= 1.5, WITHIN_S)
    burning += one.ask(1, 300.0, priority=BURNS, hosts=hosts[:1])
    newer = await started(one, first, burning[1])
    async with job(stack.cluster, "sleeps") as small:
        sleeping = small.ask(1, 300.0, hosts=hosts[1:2])
        await started(small, second, sleeping[0])
        for long in (one, two):
            long.ask(50, 300.0, priority=WAITS)
        await asyncio.sleep(1.0)  # some heartbeats
        async with job(stack.cluster, "comes") as short, job(stack.cluster, "comes, too") as other:
            quick = [*short.ask(1, 300.0, hosts=hosts[:1]), *other.ask(1, 300.0, hosts=hosts[1:2])]
            await asyncio.gather(swaps(short, quick[0], first, older, newer), starves(other, second, starves_here))
    return [*burning, *beside, *starving, *sleeping, *quick]


async def swaps(short: SleepJob, quick: SleepTask, node: NodeWatch, older: str, newer: str) -> None:
    """The most attained gives way to a newcomer; when its quantum is over the other one does, and the first resumes."""
    await short.until(lambda: node.of(older, "shrunk") or node.of(newer, "shrunk"), WITHIN_S)
    assert [*node.of(older, "shrunk"), *node.of(newer, "shrunk")][0].cid == older, f"the most attained:\n{node.story()}"
    await started(short, node, quick)

    await short.until(lambda: node.of(older, "running")[1:] and node.of(newer, "shrunk"), WITHIN_S)
    resumed, gave_way = node.of(older, "running")[1], node.of(newer, "shrunk")[0]
    assert resumed.attained_s[newer] >= resumed.attained_s[older], f"the least resumes:\n{node.story()}"
    ran_s = gave_way.at_s - node.of(newer, "running")[0].at_s
    assert ran_s >= QUANTUM_S - EARLY_S, f"it gave way within its quantum, after {ran_s:.1f} s:\n{node.story()}"
    assert node.state(quick.containers[0]) == "running", f"that of the short job goes on:\n{node.story()}"


async def starves(other: SleepJob, node: NodeWatch, starving: str) -> None:
    """A container of the long job stands still beside two of short jobs, which attain less; when it starves it runs."""
    await other.until(lambda: node.of(starving, "shrunk") and node.of(starving, "running")[1:], WITHIN_S)
    stopped, ran = node.of(starving, "shrunk")[0], node.of(starving, "running")[1]
    stood_s = ran.at_s - stopped.at_s
    assert stood_s >= STARVE_QUANTA * QUANTUM_S - EARLY_S, f"it ran before it starved:\n{node.story()}"


async def started(of_job: SleepJob, node: NodeWatch, task: SleepTask) -> str:
    """Wait until a task's container runs; return its id."""
    await of_job.until(lambda: any(node.state(cid) == "running" for cid in task.containers), WITHIN_S)
    return task.containers[-1]
