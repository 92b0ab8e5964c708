"""Who gets a place and when, under `policies: {}`: late binding, levels, front places, shares, by YARN's own logs."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

import pytest

from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.nm_log import most_at_once
from tests.promise.conftest import CORES, NODES
from tests.promise.observing import (
    LONG,
    WITHIN_S,
    NodeWatch,
    grant_times,
    is_limited,
    lives,
    mean_at_once,
    pid_of,
    starts,
)

pytestmark = [pytest.mark.promise, pytest.mark.hadoop]
PLACES: Final = NODES * CORES
HONEST: Final = ("expected_s:3",)
"""Tag of a job whose tasks do take 3 s."""


def test_containers_are_bound_when_a_place_comes_free(scheduling: LocalDaemons) -> None:
    """A job holds all cores and wants as many containers again, and a half: they wait without a node.

    Each has a priority of its own, so that its duration is not learnt from the others: where an end is expected, the
    next container is bound a little ahead of it.
    """

    async def run() -> list[SleepTask]:
        async with job(scheduling.cluster, "late binding") as wide:
            held = [task for own in range(PLACES) for task in wide.ask(1, 5.0, priority=30 + own)]
            await wide.until_granted(held, WITHIN_S)
            more = [task for own in range(PLACES + NODES) for task in wide.ask(1, 1.0, priority=50 + own)]
            await wide.until_done(within_s=WITHIN_S)
            return [*held, *more]

    tasks = asyncio.run(run())
    granted_s = grant_times(scheduling.cluster)
    assert [task.exits for task in tasks] == [[0]] * len(tasks)
    given = [granted_s[task.containers[0]] for task in tasks]
    ran = lives(scheduling.cluster, tasks)
    ended = [life.over_s for life in ran]
    bound = [sum(at <= now for at in given) - sum(at is not None and at <= now for at in ended) for now in given]
    assert max(bound) == PLACES, f"containers with a node at each grant: {bound}"
    assert most_at_once(ran) == PLACES, "no job takes a front place beside its own containers"


def test_the_least_open_work_goes_first(scheduling: LocalDaemons) -> None:
    """A wide job holds all cores and waits for more; a narrower one that came later gets what comes free first."""

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(scheduling.cluster, "wide") as wide, job(scheduling.cluster, "narrow") as narrow:
            held = [*wide.ask(NODES, 6.0, priority=10), *wide.ask(PLACES - NODES, 9.0, priority=11)]
            await wide.until_granted(held, WITHIN_S)
            many = wide.ask(4 * NODES, 1.0)
            await asyncio.sleep(1.0)  # some heartbeats
            few = narrow.ask(2 * NODES, 1.0)
            await narrow.until_done(within_s=WITHIN_S)
            await wide.until_done(within_s=WITHIN_S)
            return many, few

    many, few = asyncio.run(run())
    of_wide, of_narrow = starts(scheduling.cluster, many), starts(scheduling.cluster, few)
    assert of_narrow[NODES - 1] < of_wide[0], f"the first three places; wide {of_wide}, narrow {of_narrow}"


def test_a_short_job_starts_at_once_and_a_container_of_a_long_one_gives_way(scheduling: LocalDaemons) -> None:
    """A job with much open work holds all cores; the task of a small one starts beside them."""
    cluster = scheduling.cluster

    async def run(nodes: list[NodeWatch]) -> tuple[list[SleepTask], list[SleepTask]]:
        def shrunk() -> list[tuple[int, str]]:
            return [(node.node, cid) for node in nodes for cid in list(node.containers) if node.state(cid) == "shrunk"]

        async with job(cluster, "long", tags=LONG) as long, job(cluster, "short") as short:
            held = long.ask(PLACES, 300.0, priority=10)
            await long.until(lambda: len(starts(cluster, held)) == PLACES, WITHIN_S)
            long.ask(50, 300.0)
            await asyncio.sleep(1.0)  # some heartbeats
            assert shrunk() == []
            quick = short.ask(1, 4.0)
            await short.until(shrunk, WITHIN_S)
            ((node, victim),) = shrunk()
            assert victim in {task.containers[0] for task in held}
            pid = pid_of(cluster, node, victim)
            limited = [is_limited(pid)]
            await short.until_done(within_s=WITHIN_S)
            await short.until(lambda: not shrunk(), WITHIN_S)
            assert [*limited, is_limited(pid)] == [True, False], "the kernel limits it until the short one is over"
            return held, quick

    with ExitStack() as watches:
        nodes = [watches.enter_context(NodeWatch(scheduling, number)) for number in range(NODES)]
        held, quick = asyncio.run(run(nodes))
    (short,), others = lives(cluster, quick), lives(cluster, held)
    beside = [life for life in others if life.node == short.node]
    assert short.over_s is not None and len(beside) == CORES
    assert all(life.over_s is None or life.over_s > short.over_s for life in beside), "none was killed, none had ended"


def test_queues_have_their_shares(scheduling: LocalDaemons) -> None:
    """Queue batch (20 %) wants less work, which would go first, than queue default (80 %), which has all cores.

    Its share is 1.2 cores, so it has one or two: with one of six both queues have the same part of their shares, and
    the less work goes first.
    """

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        cluster = scheduling.cluster
        async with (
            job(cluster, "of default", tags=HONEST) as first,
            job(cluster, "of batch", queue="batch", tags=HONEST) as second,
        ):
            wide = first.ask(60, 3.0)
            await first.until(lambda: sum(bool(task.containers) for task in wide) >= PLACES, WITHIN_S)
            narrow = second.ask(7, 3.0)
            await second.until_done(within_s=WITHIN_S)
            assert not all(task.containers for task in wide), "queue default wanted places all the time"
            return wide, narrow

    wide, narrow = asyncio.run(run())
    of_narrow, of_wide = lives(scheduling.cluster, narrow), lives(scheduling.cluster, wide)
    began = starts(scheduling.cluster, narrow)
    mean = [mean_at_once(some, began[0], began[-1]) for some in (of_narrow, of_wide)]
    assert 0.6 <= mean[0] <= 2.0, f"batch has {mean[0]:.1f} of {PLACES} cores, default {mean[1]:.1f}; 1.2 are its share"
