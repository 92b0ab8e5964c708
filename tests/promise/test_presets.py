"""Each preset on real nodes: two jobs side by side end well, with the kinds of containers that it stands for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pytest

from policies.config.presets import DEFAULT, NAMES, PRESETS
from quicksilver_lab.bench.sleep_job import SYSTEM, SleepJob, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.mapreduce import pi_estimate, start_pi
from quicksilver_lab.workloads.nm_log import most_at_once
from quicksilver_lab.workloads.records import RecordedGrants, RecordsWatch, application_of, is_master
from tests.promise.conftest import CORES, EXTRA, NODES
from tests.promise.helpers import WITHIN_S, options, running
from tests.promise.observing import lives

pytestmark = [pytest.mark.promise, pytest.mark.hadoop]
TASKS: Final = NODES * CORES + NODES
MAPS: Final = 1

KINDS: Final[Mapping[str, set[str]]] = {
    "stock": {"G"},
    "mixed": {"G", "Q"},  # chance decides on each task
    "zoe": {"G"},  # of MapReduce one map and one reduce are core, of a framework that it does not know all tasks
}
"""Of tasks; all are queueable under presets that are not here."""
OTHERS: Final = [name for name in NAMES if name != DEFAULT]
"""The other modules have the default preset."""


def most_at_a_node(cluster: Cluster, jobs: Sequence[SleepJob]) -> int:
    """Return how many tasks ran at the same time at one node, by the NodeManagers' logs."""
    ran = lives(cluster, (task for asked in jobs for task in asked.tasks))
    return max(most_at_once(life for life in ran if life.node == node.name) for node in cluster.spec.node_addresses)


def at_most(name: str) -> int:
    """Return how many containers may run at a node under a preset.

    The NodeManager has a place more than cores; who keeps to the cores holds queueable containers until one is free.
    """
    keeps = PRESETS[name].section.get("preempt") == {"policy": "kill_newest"}
    return CORES if keeps else CORES + EXTRA


async def sleeps(cluster: Cluster, name: str) -> SleepJob:
    """Run a job of short tasks until all are done."""
    async with job(cluster, name) as asked:
        asked.ask(TASKS, 0.5)
        await asked.until_done(within_s=WITHIN_S)
        return asked


def kinds(granted: RecordedGrants, app: str) -> set[str]:
    """Return the kinds of an application's containers, by the ResourceManager's log."""
    mine = {container for container in granted.all if application_of(container) == app and not is_master(container)}
    return {"Q" if container in granted.opportunistic else "G" for container in mine}


def expected(name: str) -> dict[str, str]:
    """Return the policies that a preset names, by slot."""
    section = PRESETS[name].section.items()
    return {slot: str(made["policy"]) for slot, made in section if isinstance(made, Mapping) and "policy" in made}


def chosen(stack: LocalDaemons, name: str) -> dict[str, str]:
    """Return the policies that are in use, of the slots that a preset names."""
    rows = stack.get("/v1/policies")["active"]
    return {row["slot"]: row["name"] for row in rows if row["slot"] in expected(name)}


@contextmanager
def watched(cluster: Cluster, name: str) -> Iterator[RecordsWatch]:
    """Run proxy and sidecars of a preset for the time of a with block, and watch what YARN records."""
    with running(cluster, {"preset": name}, name, supervised=False) as stack:
        assert chosen(stack, name) == expected(name)
        with RecordsWatch(cluster) as watch:
            yield watch


def check_sleeping(cluster: Cluster, name: str, jobs: Sequence[SleepJob]) -> None:
    """Check that each task of these jobs was done, and that never more than a preset allows ran at a node."""
    for task in (task for asked in jobs for task in asked.tasks):
        assert task.exits[-1] == 0 and set(task.exits[:-1]) <= SYSTEM, task
        assert len(task.exits) == len(task.containers), task
    assert most_at_a_node(cluster, jobs) <= at_most(name)


def check_kinds(granted: RecordedGrants, name: str, app: str) -> None:
    """Check that an application's containers are of the kinds that a preset gives."""
    assert kinds(granted, app), granted
    assert kinds(granted, app) <= KINDS.get(name, {"Q"}), granted


@pytest.mark.parametrize("name", OTHERS)
def test_two_jobs_end_well(presets_cluster: Cluster, name: str) -> None:
    async def both() -> list[SleepJob]:
        return await asyncio.gather(*(sleeps(presets_cluster, f"{name}-{which}") for which in ("one", "two")))

    with watched(presets_cluster, name) as watch:
        jobs = asyncio.run(both())
        check_sleeping(presets_cluster, name, jobs)
        for asked in jobs:
            check_kinds(watch.granted(), name, asked.app_id)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_mapreduce_ends_well_beside_another_job(presets_cluster: Cluster, name: str) -> None:
    with watched(presets_cluster, name) as watch, Clients() as together:
        pi = start_pi(presets_cluster, f"pi-{name}", MAPS, 100, options())
        together.add(pi.client)
        asked = asyncio.run(sleeps(presets_cluster, name))
        estimate = pi_estimate(pi.client.wait(WITHIN_S))
        assert math.isclose(estimate, math.pi, abs_tol=0.1), estimate
        check_sleeping(presets_cluster, name, [asked])
        for app in (clients.job_id(pi.client.text).replace("job_", "application_"), asked.app_id):
            check_kinds(watch.granted(), name, app)
