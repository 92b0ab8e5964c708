"""NodeManagers that die and come back, nodes that are emptied, application masters that die: on a real cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.yarn.yarn_client import AmClient, NmClient
from quicksilver_lab.bench.las.master import APP_TYPE
from quicksilver_lab.bench.sleep_job import SleepJob, SleepTask, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.siteconf import read_site, write_site
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.distributed_shell import shell_arguments
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.nm_log import read_lives
from rm_proxy.domain.exit_codes import preempted_status

pytestmark = pytest.mark.hadoop
NODES = 3
POLICIES = {"queues": "*", "routes": [{"policy": "only_q"}], "quota": {"policy": "none"}, "retries_to_g": 50}
SIDECAR = {"memory_mb": 1024, "vcores": 2, "reserve_mb": 0}
"""Two containers run on a node, the others wait."""
EXPIRY_S = 20
PREEMPTED = preempted_status(APP_TYPE)
"""What the application is told of all that the system took."""
NO_RECOVERY = 2
"""The node whose NodeManager forgets its containers."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    workdir = tmp_path_factory.mktemp("failures")
    (workdir / "excluded").write_text("")
    script = workdir / "healthy"
    script.write_text(f"#!/bin/sh\n[ ! -e {workdir}/sick-$1 ] || echo ERROR the test says so\n")
    script.chmod(0o755)
    health = "yarn.nodemanager.health-checker"
    spec = ClusterSpec(
        workdir=workdir,
        base_port=free_base_port(NODES),
        nodes=NODES,
        nm_recovery=True,
        min_allocation_mb=256,
        queues={"default": 100},
        extra_site={
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1.0"},
            "yarn": {
                "yarn.nm.liveness-monitor.expiry-interval-ms": str(EXPIRY_S * 1000),
                "yarn.resourcemanager.nodes.exclude-path": str(workdir / "excluded"),
                f"{health}.scripts": "script",
                f"{health}.script.path": str(script),
                f"{health}.script.opts": "${yarn.nodemanager.hostname}",
                f"{health}.script.interval-ms": "1000",
                f"{health}.interval-ms": "1000",
            },
        },
    )
    made = Cluster(spec)
    made.start()
    forgetful = made.node_conf_dirs[NO_RECOVERY] / "yarn-site.xml"
    write_site(forgetful, read_site(forgetful) | {"yarn.nodemanager.recovery.enabled": "false"})
    made.restart(daemon(made, NO_RECOVERY))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(cluster, POLICIES, sidecar=SIDECAR)
    made.start()
    try:
        yield made
    finally:
        made.stop()
    for name in ("proxy", *(node.name for node in cluster.spec.node_addresses)):
        assert "Traceback" not in made.log(name).read_text(), made.log(name)


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster, stack: LocalDaemons) -> Iterator[None]:
    stack.wait(60)
    yield
    left = Left(stack)
    eventually(left.nothing, 120, left.why)


def daemon(cluster: Cluster, number: int) -> str:
    return f"nodemanager-{cluster.spec.node_addresses[number].name}"


def node_id(cluster: Cluster, number: int) -> str:
    return str(cluster.spec.node_addresses[number].rpc)


def eventually(true: Callable[[], Any], within_s: float, why: Callable[[], str] = lambda: "") -> Any:
    end_s = time.monotonic() + within_s
    while not (found := true()):
        assert time.monotonic() < end_s, f"not within {within_s:g} s: {why()}"
        time.sleep(0.1)
    return found


class Left:
    """What proxy and sidecars hold, when nothing runs any more."""

    def __init__(self, stack: LocalDaemons) -> None:
        self._stack, self.found = stack, ""

    def nothing(self) -> bool:
        nodes = self._stack.get("/v1/nodes")["items"]
        found = [f"{n['id']}: used {n['used_g']} {n['used_q']}, {n['queue_length']} wait" for n in nodes if _busy(n)]
        found += [f"{a['id']} lives" for a in self._stack.get("/v1/applications")["items"]]
        self.found = "; ".join(found)
        return not found

    def why(self) -> str:
        return self.found


def _busy(node: dict[str, Any]) -> bool:
    return bool(node["used_g"]["memory_mb"] or node["used_q"]["memory_mb"] or node["queue_length"])


class Patient(SleepJob):
    """A job whose starts are tried again, as NMProxy does, until the container is over."""

    def __init__(self, am: AmClient, app_id: str) -> None:
        super().__init__(am, app_id)
        self._starts: set[asyncio.Task[None]] = set()
        self._line = asyncio.Lock()
        self.refusals: dict[str, str] = {}
        """Why a start failed last, by container."""

    async def beat(self) -> None:
        """Send heartbeats while not hung up, until cancelled."""
        while True:
            async with self._line:
                await self._take(await self._am.allocate(self._request()))
            await asyncio.sleep(0.2)

    async def hang_up(self) -> None:
        """Close the connection between two heartbeats."""
        await self._line.acquire()
        await self._am.close()

    async def call_back(self, cluster: Cluster) -> None:
        """Connect anew and go on."""
        before = self._am
        self._am = AmClient(*cluster.spec.scheduler, before.token)
        self._am.response_id = before.response_id
        await self._am.connect()
        self._line.release()

    async def _start(self, container: y.ContainerProto, task: SleepTask) -> None:
        made = asyncio.create_task(self._try(container, task))
        self._starts.add(made)
        made.add_done_callback(self._tried)

    def _tried(self, made: asyncio.Task[None]) -> None:
        self._starts.discard(made)
        if not made.cancelled() and made.exception() is not None:
            self.errors.append(repr(made.exception()))

    async def _try(self, container: y.ContainerProto, task: SleepTask) -> None:
        address = container.nodeId.host, container.nodeId.port
        name = task.containers[-1]
        while name in self._running:
            try:
                async with NmClient(*address, self._tokens[address]) as node:
                    await node.start(container, f"exec sleep {task.seconds:g}")
                return
            except (OSError, HadoopRpcError) as error:
                self.refusals[name] = str(error)
                await asyncio.sleep(0.5)


def states(stack: LocalDaemons, number: int) -> dict[str, str]:
    node = stack.cluster.spec.node_addresses[number]
    rows = requests.get(f"{stack.sidecar_rest(node).url}/v1/containers", timeout=60).json()
    return {row["container_id"]: row["state"] for row in rows}


def report(stack: LocalDaemons, number: int) -> dict[str, Any]:
    node = stack.cluster.spec.node_addresses[number]
    found: dict[str, Any] = requests.get(f"{stack.sidecar_rest(node).url}/v1/node", timeout=60).json()
    return found


def shown(stack: LocalDaemons, number: int) -> dict[str, Any]:
    found: dict[str, Any] = stack.get(f"/v1/nodes/{node_id(stack.cluster, number)}")
    return found


def cannot(stack: LocalDaemons, number: int, why: str) -> bool:
    return why in shown(stack, number)["why_unusable"]


def usable(stack: LocalDaemons, number: int) -> bool:
    return bool(shown(stack, number)["usable"])


async def until(true: Callable[[], Any], within_s: float) -> Any:
    return await asyncio.to_thread(eventually, true, within_s)


async def settled(
    mine: Patient, stack: LocalDaemons, number: int, running: int = 2, waiting: int = 1
) -> tuple[set[str], set[str]]:
    """Wait until so many (or more) run and wait on a node; return both."""

    def found() -> tuple[set[str], set[str]] | None:
        known = states(stack, number)
        runs = {c for c, s in known.items() if s == "running"}
        waits = {c for c, s in known.items() if s == "waiting"}
        return (runs, waits) if len(runs) >= running and len(waits) >= waiting else None

    def why() -> str:
        nodes = {node["id"]: node["why_unusable"] for node in stack.get("/v1/nodes")["items"]}
        given = [task.containers for task in mine.tasks]
        return f"{states(stack, number)}, {given}, {nodes}, {mine.errors}, {mine.refusals}"

    result: tuple[set[str], set[str]] = await asyncio.to_thread(eventually, found, 120, why)
    return result


def play(cluster: Cluster, name: str, story: Callable[[Patient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with job(cluster, name, make=Patient) as mine:
            assert isinstance(mine, Patient)
            await story(mine)

    asyncio.run(run())


def once(tasks: list[SleepTask]) -> None:
    """Each container has ended exactly once, the last one well; the others for the system's reasons."""
    for task in tasks:
        assert len(task.exits) == len(task.containers), task
        assert task.exits[-1] == 0
        assert set(task.exits[:-1]) <= {-100, -102}, task


def never_ran(cluster: Cluster, containers: set[str]) -> None:
    lives = read_lives((n.name, cluster.log(f"nodemanager-{n.name}")) for n in cluster.spec.node_addresses)
    assert not containers & lives.keys()


@pytest.mark.long
def test_nodemanagers_die_and_come_back_with_and_without_recovery(cluster: Cluster, stack: LocalDaemons) -> None:
    async def story(mine: Patient) -> None:
        tasks = mine.ask(12, 25.0)
        (kept, waits), (forgotten, others) = await settled(mine, stack, 0), await settled(mine, stack, NO_RECOVERY)
        held = waits | others
        for number in (0, NO_RECOVERY):
            await asyncio.to_thread(cluster.kill, daemon(cluster, number))
        died_s = time.monotonic()
        for number in (0, NO_RECOVERY):
            await until(partial(cannot, stack, number, "NodeManager takes no starts"), EXPIRY_S / 2)
        told_s = time.monotonic() - died_s
        await until(lambda: held <= {c for t in tasks for c in t.containers[: len(t.exits)]}, EXPIRY_S / 2)
        print(f"\nNodeManager dead -> proxy knows, held starts lost: {told_s:.2f} s")
        assert kept <= states(stack, 0).keys()  # they run on, and are counted
        for number in (0, NO_RECOVERY):
            await asyncio.to_thread(cluster.restart, daemon(cluster, number))
        for number in (0, NO_RECOVERY):
            await until(partial(usable, stack, number), 120)
        await mine.until_done(within_s=120)
        once(tasks)
        ends = {c: e for t in tasks for c, e in zip(t.containers, t.exits, strict=True)}
        assert {ends[c] for c in kept} == {0}
        assert {ends[c] for c in forgotten} == {PREEMPTED}
        assert {ends[c] for c in held} == {PREEMPTED}
        never_ran(cluster, held)

    play(cluster, "come-back", story)


def test_a_node_is_lost_and_returns(cluster: Cluster, stack: LocalDaemons) -> None:
    async def story(mine: Patient) -> None:
        tasks = mine.ask(9, 8.0, hosts=(cluster.spec.node_addresses[1].host,))
        ran, held = await settled(mine, stack, 1)
        await asyncio.to_thread(cluster.kill, daemon(cluster, 1))
        await mine.until_done(within_s=EXPIRY_S + 60)
        once(tasks)
        ends = {c: e for t in tasks for c, e in zip(t.containers, t.exits, strict=True)}
        assert {ends[c] for c in ran | held} == {PREEMPTED}
        never_ran(cluster, held)
        await until(partial(cannot, stack, 1, "its state is LOST"), 60)
        assert report(stack, 1)["drain_reason"] == "YARN: its state is LOST"
        await asyncio.to_thread(cluster.restart, daemon(cluster, 1))
        await until(partial(usable, stack, 1), 120)
        await mine.until_done(mine.ask(9, 1.0))

    play(cluster, "lost", story)


@pytest.mark.parametrize("way", ["decommissioned", "unhealthy"])
def test_a_node_that_yarn_empties_sheds_what_waits_and_takes_queueables_again(
    cluster: Cluster, stack: LocalDaemons, way: str
) -> None:
    excluded, host = cluster.spec.workdir / "excluded", cluster.spec.node_addresses[1].host
    sick = cluster.spec.workdir / f"sick-{host}"

    async def begin() -> None:
        if way == "unhealthy":
            sick.touch()
            return
        excluded.write_text(f"{host}\n")
        await asyncio.to_thread(cluster.hadoop, "rmadmin", "-refreshNodes", "-g", "60", "-server")

    async def end() -> None:
        sick.unlink(missing_ok=True)
        excluded.write_text("")
        if way == "decommissioned":
            await asyncio.to_thread(cluster.hadoop, "rmadmin", "-refreshNodes")

    async def story(mine: Patient) -> None:
        tasks = mine.ask(9, 12.0, hosts=(host,))
        ran, held = await settled(mine, stack, 1)
        await begin()
        await until(lambda: report(stack, 1)["draining"], 60)
        await until(lambda: not set(states(stack, 1)) & held, 60)
        await mine.until_done(within_s=180)
        once(tasks)
        ends = {c: e for t in tasks for c, e in zip(t.containers, t.exits, strict=True)}
        assert {ends[c] for c in held} == {PREEMPTED}
        assert {ends[c] for c in ran} == ({0} if way == "decommissioned" else {PREEMPTED})
        never_ran(cluster, held)
        await end()
        if way == "decommissioned" and shown(stack, 1)["state"] == "DECOMMISSIONED":
            await asyncio.to_thread(cluster.restart, daemon(cluster, 1))
        await until(partial(usable, stack, 1), 120)
        await mine.until_done(mine.ask(9, 1.0))

    play(cluster, way, story)


def test_an_unmanaged_master_hangs_up_and_comes_back_and_its_end_drops_what_waits(
    cluster: Cluster, stack: LocalDaemons
) -> None:
    async def story(mine: Patient) -> None:
        first = (cluster.spec.node_addresses[0].host,)
        tasks = mine.ask(6, 6.0, hosts=first)
        _, held = await settled(mine, stack, 0)
        await mine.hang_up()
        await asyncio.sleep(3)
        assert held - states(stack, 0).keys() <= started(stack, held), "none is dropped: it waits, or it has started"
        await mine.call_back(cluster)
        await mine.until_done(tasks)
        once(tasks)
        assert all(len(task.containers) == 1 for task in tasks)
        mine.ask(9, 30.0, hosts=first)
        _, held = await settled(mine, stack, 0)
        await mine.hang_up()
        await asyncio.to_thread(cluster.hadoop, "application", "application", "-kill", mine.app_id)
        killed_s = time.monotonic()
        await until(lambda: not held & states(stack, 0).keys(), 60)
        print(f"\nkilled -> held starts dropped: {time.monotonic() - killed_s:.2f} s")
        raise OverError  # no container of a master tells of the end: the proxy reads it within apps_refresh_s

    with pytest.raises(OverError):
        play(cluster, "unmanaged", story)


class OverError(Exception):
    """The application is killed; it cannot unregister."""


def master_pid(cluster: Cluster, stack: LocalDaemons) -> tuple[str, int]:
    """Return the container and the process of the application master that runs now."""
    for number in range(NODES):
        node = cluster.spec.node_addresses[number]
        rows = requests.get(f"{stack.sidecar_rest(node).url}/v1/containers", timeout=60).json()
        for row in (r for r in rows if r["am"] and r["state"] == "running"):
            cid, app = row["container_id"], row["app_id"]
            files = list((cluster.local_dir(number) / "nmPrivate" / app / cid).glob("*.pid"))
            if files:
                return cid, int(Path(files[0]).read_text())
    return "", 0


def in_state(stack: LocalDaemons, state: str) -> set[str]:
    return {c for number in range(NODES) for c, s in states(stack, number).items() if s == state}


def kill_master(cluster: Cluster, stack: LocalDaemons) -> tuple[set[str], set[str]]:
    """Kill the master when starts are held; return what was held, and what ran.

    The ResourceManager keeps for the next attempt what a NodeManager's heartbeat told it that runs.
    """

    def found() -> tuple[int, set[str]] | None:
        cid, pid = master_pid(cluster, stack)
        runs = in_state(stack, "running") - {cid}
        log = cluster.log("resourcemanager").read_text()
        known = all(f"{one} Container Transitioned from ACQUIRED to RUNNING" in log for one in runs)
        return (pid, runs) if pid and runs and known and in_state(stack, "waiting") else None

    pid, runs = eventually(found, 120)
    held = in_state(stack, "waiting")
    os.killpg(pid, signal.SIGKILL)
    killed_s = time.monotonic()
    eventually(lambda: not held & {c for n in range(NODES) for c in states(stack, n)}, 60)
    print(f"\nmaster killed -> held starts dropped at all nodes: {time.monotonic() - killed_s:.2f} s")
    return held, runs


def started(stack: LocalDaemons, containers: set[str]) -> set[str]:
    """Return which of these really started."""
    told = {cid: stack.get(f"/v1/containers/{cid}")["events"] for cid in containers}
    return {cid for cid, events in told.items() if any(event["kind"] == "started" for event in events)}


def test_a_mapreduce_master_is_killed_and_its_second_attempt_finishes(cluster: Cluster, stack: LocalDaemons) -> None:
    text = make_text(2000)
    put_text(cluster, "/failures/input.txt", text)
    options = JobOptions(properties={"mapreduce.map.speculative": "false", "mapreduce.am.max-attempts": "2"})
    running = start_wordcount(cluster, "/failures/input.txt", "/failures/counted", maps=10, options=options)
    held, _ = kill_master(cluster, stack)
    done = running.wait(timeout_s=200)
    assert read_counts(cluster, "/failures/counted") == count_words(text)
    assert done.failed_attempts == 0
    assert not started(stack, held)


def test_containers_of_distributed_shell_outlive_their_master(cluster: Cluster, stack: LocalDaemons) -> None:
    arguments = [
        *shell_arguments(cluster, "kept", "GUARANTEED", 8, 20, "default"),
        "-keep_containers_across_application_attempts",
    ]
    client = clients.start(cluster, "kept", "distributedshell", arguments)
    held, runs = kill_master(cluster, stack)
    clients.application_id(client.wait(200))
    assert not started(stack, held)
    for cid in runs:
        told = stack.get(f"/v1/containers/{cid}")
        last = told["events"][-1]
        made_room = last["kind"] == "killed" and "makes room" in last["reason"]  # for the second attempt's master
        assert last["kind"] == "ended" or made_room, told
        assert told["completion"]["exit_status"] == (-100 if made_room else 0)
