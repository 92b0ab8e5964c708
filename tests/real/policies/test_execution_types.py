"""The execution types that applications ask for on real YARN, by what ResourceManager and NodeManagers recorded."""

from __future__ import annotations

import asyncio

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.sleep_job import MEMORY_MB, SleepJob, all_lives, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.nm_log import most_at_once
from quicksilver_lab.workloads.records import OPPORTUNISTIC, RecordsWatch
from tests.real.test_policies import stack

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
            assert isinstance(mine, SleepJob)
            tasks = mine.ask(TASKS, 2.0, opportunistic=opportunistic, enforced=enforced)
            await mine.until_done()
        return {cid for task in tasks for cid in task.containers}

    async def run() -> list[set[str]]:
        return [await run_one(kind) for kind in TYPES]

    quota = {"policy": "absolute", "settings": {"max_q": 1}}
    with stack(three_nodes, quota=quota, routes=[{"policy": "only_q"}]), RecordsWatch(three_nodes) as watch:
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


SIZING = y.ResourceProto(memory=MEMORY_MB, virtual_cores=1).SerializeToString()
SIZING_FIELD = b"\x08\x01\x12" + bytes([len(SIZING)]) + SIZING
"""ResourceSizingProto: one allocation of that size."""


class Constrained(SleepJob):
    """An application that asks by SchedulingRequests, with a duration among their allocation tags."""

    async def ask_with(self, *tags: str) -> None:
        """Ask for a container with these allocation tags, and run a task in it."""
        tasks = self.ask(1, 0.5)
        self._ask_counts[tasks[0].priority, MEMORY_MB] = 1  # no ResourceRequest
        known = y.SchedulingRequestProto(allocationRequestId=5, allocationTags=tags)
        known.priority.priority = tasks[0].priority
        known.executionType.execution_type = y.GUARANTEED
        raw = known.SerializeToString() + b"\x2a" + bytes([len(SIZING_FIELD)]) + SIZING_FIELD
        self._scheduling = [y.SchedulingRequestProto.FromString(raw)]
        await self.until_done()

    def _request(self) -> y.AllocateRequestProto:
        request = super()._request()
        request.scheduling_requests.extend(getattr(self, "_scheduling", ()))
        self._scheduling: list[y.SchedulingRequestProto] = []
        return request


def test_a_scheduling_request_names_its_duration_to_the_proxy_alone(three_nodes: Cluster) -> None:
    """The ResourceManager takes any tag, and grants a guaranteed container."""

    async def run() -> SleepJob:
        async with job(three_nodes, "constrained", make=Constrained) as mine:
            assert isinstance(mine, Constrained)
            await mine.ask_with("web", "expected_s:12.5")
        return mine

    with stack(three_nodes, routes=[{"policy": "only_q"}]) as running, RecordsWatch(three_nodes) as watch:
        mine = asyncio.run(run())
        found = running.get(f"/v1/decisions?app={mine.app_id}")["items"]
    (container_id,) = mine.tasks[0].containers
    granted = watch.granted()
    assert container_id in granted.all - granted.opportunistic
    assert [(one["container_id"], one["kind"]) for one in found] == [(container_id, "G")]
    assert (found[0]["expected_s"], found[0]["expected_by"]) == (12.5, "tag")
