"""Whole applications are admitted on real YARN: core guaranteed, elastic queueable, the next one waits for its core."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from hadoop_rpc.errors import HadoopRpcError
from quicksilver_apps.yarn.yarn_client import AmClient, RemoteCallError
from quicksilver_lab.bench.las.master import APP_TYPE, title
from quicksilver_lab.bench.las.modes import EXTRA
from quicksilver_lab.bench.sleep_job import SleepJob, SleepTask, all_lives, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.records import RecordsWatch, application_of
from rm_proxy.domain.exit_codes import preempted_status
from tests.promise.helpers import behind
from tests.real.conftest import NODES, VCORES
from tests.real.policies.test_preempt import Burning
from tests.real.requester import SCALE

pytestmark = pytest.mark.hadoop
CORE, ELASTIC = 10, 11
"""Request priorities."""
PREEMPTED = preempted_status(APP_TYPE)
ROOM_WITHIN_S = 5.0
"""A core that arrives has room within this time."""
WAIT_S = 2.0
BEGINS_WITHIN_S = 60.0


@contextmanager
def admitting(
    cluster: Cluster, policy: str = "flexible", vcores: int = VCORES, **settings: Any
) -> Iterator[LocalDaemons]:
    """Run proxy and sidecars with the preset `zoe` and this policy of the slot `admit`."""
    policies = {"preset": "zoe", "admit": {"policy": policy, "settings": settings}}
    made = LocalDaemons(cluster, policies, sidecar={"vcores": vcores})
    made.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    made.start()
    try:
        yield made
    finally:
        made.stop()
    for name in ("proxy", *(node.name for node in cluster.spec.node_addresses)):
        assert "Traceback" not in made.log(name).read_text(), made.log(name)


@asynccontextmanager
async def app(
    cluster: Cluster, name: str, core: int, *tags: str, queue: str = "default", make: type[SleepJob] = SleepJob
) -> AsyncIterator[SleepJob]:
    """Run an application whose tags say what its core is."""
    async with job(cluster, name, queue=queue, make=make, tags=(f"core:{CORE}={core}", *tags)) as made:
        yield made


class Returning(SleepJob):
    """Goes on after its connection broke: it dials again, and registers and asks anew where it is asked to."""

    async def beat(self) -> None:
        while True:
            try:
                await super().beat()
            except OSError:
                await self._dial()
            except RemoteCallError as error:
                assert "ApplicationMasterNotRegistered" in error.exception_class, error
                await self._am.register()
                self._ask_counts.clear()

    async def _dial(self) -> None:
        response_id = self._am.response_id
        await self._am.close()
        await asyncio.sleep(0.3)
        AmClient.__init__(self._am, *self._am._address, self._am.token)
        self._am.response_id = response_id
        with contextlib.suppress(OSError, HadoopRpcError):
            await self._am.connect()


def admission(stack: LocalDaemons) -> dict[str, dict[str, Any]]:
    """Return the applications of the admission, by name; empty while the proxy does not answer."""
    try:
        return {one["name"].removeprefix(title("")): one for one in stack.get("/v1/admission")["applications"]}
    except requests.RequestException:
        return {}


def held(stack: LocalDaemons, name: str) -> tuple[int, int]:
    """Return how many core and elastic containers an application has, by the proxy."""
    one = admission(stack).get(name, {})
    return one.get("core_held", 0), one.get("elastic_held", 0)


async def until(true: Callable[[], Any], what: str, within_s: float = BEGINS_WITHIN_S) -> float:
    """Wait for something that must come, asked for in a thread of its own; return how long it took, in seconds."""
    begun_s = time.monotonic()
    while not await asyncio.to_thread(true):
        assert time.monotonic() - begun_s < within_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.05)
    return time.monotonic() - begun_s


def containers(*tasks: Sequence[SleepTask]) -> set[str]:
    return {cid for some in tasks for task in some for cid in task.containers}


def running(cluster: Cluster, tasks: Sequence[SleepTask]) -> int:
    """Return how many of these run now, by the NodeManagers."""
    lives = all_lives(cluster)
    found = [lives[cid] for cid in containers(tasks) if cid in lives]
    return sum(life.running_s is not None and life.over_s is None for life in found)


def events(stack: LocalDaemons, tasks: Sequence[SleepTask], kind: str) -> list[dict[str, Any]]:
    """Return what the sidecars reported of the tasks' containers."""
    reported = [stack.get(f"/v1/containers/{cid}") for cid in sorted(containers(tasks))]
    return [event for one in reported for event in one["events"] if event["kind"] == kind]


def shown(stack: LocalDaemons) -> dict[str, str]:
    """Return the states of containers, by the sidecars' reports."""
    ids = [node["id"] for node in stack.get("/v1/nodes?limit=1000")["items"]]
    nodes = [stack.get(f"/v1/nodes/{node_id}") for node_id in ids]
    return {one["container_id"]: one["state"] for node in nodes for one in node["containers"]}


def test_the_second_application_has_none_of_its_core_until_the_first_ends(three_nodes: Cluster) -> None:
    """Six places: the first has two core and four elastic containers, and could use more; the second needs five."""
    room = NODES * VCORES

    async def run(stack: LocalDaemons) -> dict[str, list[SleepTask]]:
        async with app(three_nodes, "second", core=5) as second:
            async with app(three_nodes, "first", core=2) as first:
                core = first.ask(2, 12.0, priority=CORE)
                await until(lambda: held(stack, "first") == (2, 0), "its core")
                elastic = first.ask(room, 2.0, priority=ELASTIC)
                await until(lambda: held(stack, "first") == (2, room - 2), "two core and four elastic ones")
                late = second.ask(5, 0.5, priority=CORE)
                await until(lambda: "second" in admission(stack), "the second one's demand")
                await asyncio.sleep(WAIT_S)
                waiting = admission(stack)["second"]
                assert (waiting["state"], waiting["core_held"], waiting["elastic_held"]) == ("waiting", 0, 0)
                assert "has no room for 1280 MB and 5 vcores" in waiting["why"]
                assert not containers(late)
                await first.until_done()
            ended_s = time.monotonic()
            await second.until_done()
            print(f"the second application ended {time.monotonic() - ended_s:.1f} s after the first")
            return {"core": core, "elastic": elastic, "late": late}

    with admitting(three_nodes) as stack, RecordsWatch(three_nodes) as watch:
        tasks = asyncio.run(run(stack))
    opportunistic = watch.granted().opportunistic
    assert containers(tasks["elastic"]) <= opportunistic
    assert not containers(tasks["core"], tasks["late"]) & opportunistic
    assert all(task.exits == [0] for some in tasks.values() for task in some)


def test_a_core_has_room_at_once_as_elastic_containers_are_shrunk(one_node: Cluster) -> None:
    """Two cores: the elastic container of a batch application gives its CPU to the core of an interactive one."""

    async def run(stack: LocalDaemons) -> list[SleepTask]:
        async with app(one_node, "batch", core=1, make=Burning) as batch, app(one_node, "urgent", 1, *URGENT) as urgent:
            tasks = batch.ask(1, 12.0, priority=CORE) + batch.ask(1, 9.0, priority=ELASTIC)
            await until(lambda: running(one_node, tasks) == 2, "a core and an elastic container")
            arrived = urgent.ask(1, 3.0, priority=CORE)
            took_s = await until(lambda: running(one_node, arrived) == 1, "the core", ROOM_WITHIN_S)
            elastic = tasks[1].containers[0]
            shrunk_s = took_s + await until(
                lambda: shown(stack).get(elastic) == "shrunk", "it is shrunk", ROOM_WITHIN_S
            )
            print(f"the core ran after {took_s:.1f} s, the elastic container was shrunk after {shrunk_s:.1f} s")
            assert running(one_node, tasks) == 2
            await urgent.until_done()
            await until(lambda: shown(stack).get(elastic) != "shrunk", "it has its CPU again", ROOM_WITHIN_S)
            await batch.until_done()
            return [*tasks, *arrived]

    with admitting(one_node, "preemptive", SCALE.cores) as stack:
        tasks = asyncio.run(run(stack))
    assert [task.exits for task in tasks] == [[0]] * 3


URGENT = ("class:interactive",)


def test_a_core_has_room_at_once_as_elastic_containers_end_where_memory_is_short(one_node: Cluster) -> None:
    """The elastic container has most of the memory: it ends as preempted, is asked for again, and runs afterwards."""
    node_mb = one_node.spec.node_memory_mb
    large_mb, core_mb = node_mb - 1024, node_mb // 2

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with app(one_node, "batch", core=1) as batch:
            async with app(one_node, "urgent", 1, *URGENT) as urgent:
                core = batch.ask(1, 12.0, priority=CORE)
                elastic = batch.ask(1, 4.0, priority=ELASTIC, memory_mb=large_mb)
                await until(lambda: running(one_node, core + elastic) == 2, "a core and an elastic container")
                arrived = urgent.ask(1, 2.0, priority=CORE, memory_mb=core_mb)
                took_s = await until(lambda: running(one_node, arrived) == 1, "the core", ROOM_WITHIN_S)
                print(f"the core ran after {took_s:.1f} s")
                assert running(one_node, core) == 1
                await urgent.until_done()
            await batch.until_done()
            return [*core, *arrived], elastic

    with admitting(one_node, "preemptive", SCALE.cores):
        cores, elastic = asyncio.run(run())
    assert [task.exits for task in cores] == [[0], [0]]
    assert [task.exits for task in elastic] == [[PREEMPTED, 0]]


def test_a_killed_proxy_has_the_same_applications_in_service_afterwards(three_nodes: Cluster) -> None:
    async def run(stack: LocalDaemons) -> tuple[list[SleepTask], list[SleepTask]]:
        async with app(three_nodes, "waiting", core=5, make=Returning) as waiting:
            async with app(three_nodes, "serving", core=2, make=Returning) as serving:
                early = serving.ask(2, 40.0, priority=CORE)
                await until(lambda: held(stack, "serving") == (2, 0), "its core")
                early += serving.ask(8, 8.0, priority=ELASTIC)
                await until(lambda: held(stack, "serving") == (2, 4), "two core and four elastic ones")
                late = waiting.ask(5, 0.5, priority=CORE)
                await until(lambda: "waiting" in admission(stack), "the second one's demand")
                began_s, pid = time.monotonic(), stack.kill("proxy")
                await until(
                    lambda: stack.pid("proxy") not in (None, pid) and len(admission(stack)) == 2, "both again", 40
                )
                print(f"both are known {time.monotonic() - began_s:.1f} s after the SIGKILL")
                await asyncio.sleep(WAIT_S)
                found = admission(stack)
                assert {name: one["state"] for name, one in found.items()} == {
                    "serving": "in service",
                    "waiting": "waiting",
                }
                assert (found["serving"]["core"], held(stack, "serving")[0]) == (2, 2)
                assert not containers(late)
                await serving.until_done()
            await waiting.until_done()
            return early, late

    with admitting(three_nodes) as stack:
        early, late = asyncio.run(run(stack))
    assert [task.exits for task in (*early, *late)] == [[0]] * 15


@pytest.fixture(scope="module")
def two_queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node with six places; the queue `small` may use half of it."""
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("queues"),
        base_port=free_base_port(1),
        nodes=1,
        yarn_only=True,
        node_vcores=SCALE.cores + EXTRA,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues={"default": 50, "small": 50},
        extra_site={
            "capacity-scheduler": {
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1000",
                "yarn.scheduler.capacity.root.small.maximum-capacity": "50",
            }
        },
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_a_queue_at_its_maximum_holds_up_its_own_applications_alone(two_queues: Cluster) -> None:
    async def run(stack: LocalDaemons) -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with app(two_queues, "other", core=2) as other, app(two_queues, "next", core=2, queue="small") as behind:
            async with app(two_queues, "full", core=3, queue="small") as full:
                first = full.ask(3, 8.0, priority=CORE)
                await until(lambda: held(stack, "full") == (3, 0), "its core")
                second = behind.ask(2, 0.5, priority=CORE)
                await until(lambda: "next" in admission(stack), "the demand of the next one")
                third = other.ask(2, 0.5, priority=CORE)
                await other.until_done()
                waiting = admission(stack)["next"]
                assert waiting["state"] == "waiting"
                assert waiting["why"].startswith("queue root.small has no room for 512 MB and 2 vcores")
                assert not containers(second)
                await full.until_done()
            await behind.until_done()
            return first, second, third

    with admitting(two_queues, vcores=SCALE.cores + EXTRA) as stack:
        tasks = asyncio.run(run(stack))
    assert all(task.exits == [0] for some in tasks for task in some)


def test_elastic_containers_that_do_nothing_are_given_back(three_nodes: Cluster) -> None:
    """Of two applications one sleeps in its elastic containers, and the other one computes in its own."""

    async def run(stack: LocalDaemons) -> tuple[list[SleepTask], list[SleepTask], list[SleepTask]]:
        async with app(three_nodes, "idle", 1) as idle, app(three_nodes, "busy", 1, make=Burning) as busy:
            core, computing = idle.ask(1, 45.0, priority=CORE), busy.ask(1, 18.0, priority=CORE)
            await until(lambda: (held(stack, "idle"), held(stack, "busy")) == ((1, 0), (1, 0)), "both cores")
            asleep = idle.ask(2, 60.0, priority=ELASTIC)
            computing += busy.ask(2, 10.0, priority=ELASTIC)
            await until(lambda: (held(stack, "idle"), held(stack, "busy")) == ((1, 2), (1, 2)), "all of them")
            await until(lambda: sum(PREEMPTED in task.exits for task in asleep) == 2, "both are given back", 40)
            await asyncio.sleep(WAIT_S)
            found = admission(stack)["idle"]
            assert (found["core_held"], found["elastic_held"]) == (1, 0)
            assert found["idle_until_s"] > time.time()
            killed = events(stack, asleep, "killed")
            assert [event["cause"] for event in killed] == ["admit"] * 2
            assert all("did next to nothing for" in event["reason"] for event in killed)
            await busy.until_done()
            await idle.until_done(core)
            return core, asleep, computing

    with admitting(three_nodes, idle_s=4.0, idle_hold_s=60.0) as stack:
        core, asleep, computing = asyncio.run(run(stack))
    assert [task.exits for task in (*core, *computing)] == [[0]] * 4
    assert [task.exits for task in asleep] == [[PREEMPTED]] * 2


@pytest.mark.long
def test_two_mapreduce_jobs_end_well_one_after_the_other(three_nodes: Cluster, tmp_path: Path) -> None:
    """The first can use the whole cluster: the second has its master, and none of its maps, until little is left."""
    text, gate = make_text(2000), tmp_path / "gate"
    put_text(three_nodes, "/admission/input.txt", text)
    plain = {"mapreduce.map.speculative": "false"}
    options, gated = JobOptions(properties=plain), JobOptions(properties=plain | behind(three_nodes, "map", gate))
    stamp = time.time_ns()
    targets = [f"/admission/{stamp}-{number}" for number in (1, 2)]
    with admitting(three_nodes) as stack, RecordsWatch(three_nodes) as watch:
        first = start_wordcount(three_nodes, "/admission/input.txt", targets[0], maps=10, options=gated)
        asyncio.run(until(lambda: admission(stack), "the first job's demand", 90))
        second = start_wordcount(three_nodes, "/admission/input.txt", targets[1], maps=4, options=options)
        states: dict[str, list[str]] = {}

        def look() -> None:
            for one in stack.get("/v1/admission")["applications"]:
                seen = states.setdefault(one["id"], [])
                if seen[-1:] != [one["state"]]:
                    seen.append(one["state"])
            if len(states) == 2:
                gate.touch()  # the second has asked: the first's maps may begin

        done = [first.wait(300, look), second.wait(300, look)]
    print([(job.application_id, round(job.job_s, 1), states.get(job.application_id)) for job in done])
    assert [read_counts(three_nodes, target) for target in targets] == [count_words(text)] * 2
    assert [job.failed_attempts for job in done] == [0, 0]
    assert states[done[0].application_id] == ["in service"]
    assert states[done[1].application_id] == ["waiting", "in service"]
    elastic = {cid for cid in watch.granted().opportunistic if application_of(cid) == done[0].application_id}
    assert len(elastic) >= 8
