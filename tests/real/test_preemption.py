"""Preemption by resizing under real YARN, when things go wrong: a sidecar that dies, a hog, a frozen one, a meddler."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from quicksilver_lab.bench.las.master import APP_TYPE
from quicksilver_lab.bench.las.modes import las_policies
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from rm_proxy.domain.exit_codes import preempted_status
from sidecar.resizer.processes import groups_of
from tests.real.requester import SCALE, Requester, burner, python, requester
from tests.sidecar.resizer.containers import needs_cgroup1

pytestmark = [pytest.mark.hadoop, pytest.mark.cgroup, pytest.mark.alone]
MOUNTS = Path("/sys/fs/cgroup")
PARENT = f"quicksilver-test-{os.getpid()}"
SETTINGS: dict[str, Any] = {"vcores": 2, "cgroup": PARENT, "resizer": "cgroup1"}
FULL_WITHIN_S = 5.0
GONE_WITHIN_S = 5.0
"""Groups may take longer: the kernel waits for each process that moves, beside six burners that run freely again."""
HOG = """
import time
held = []
while True:
    held.append(bytes(range(256)) * (32 << 10))
    time.sleep(0.1)
"""


@pytest.fixture
def cluster(one_node: Cluster) -> Cluster:
    needs_cgroup1()
    return one_node


class Node:
    """The one node of the cluster, as its control groups and its processes show it."""

    def __init__(self, cluster: Cluster, stack: LocalDaemons) -> None:
        self.cluster, self.stack = cluster, stack
        self.address = cluster.spec.node_addresses[0]
        self.parent = MOUNTS / "cpu" / PARENT / f"{self.address.host}-{self.address.rpc.port}"

    @property
    def sidecar(self) -> subprocess.Popen[bytes]:
        return self.stack.processes["node1"]

    def get(self, path: str) -> Any:
        return requests.get(f"{self.stack.sidecar_rest(self.address).url}{path}", timeout=60).json()

    def quotas(self) -> dict[str, int]:
        groups = self.parent.glob("container_*")
        texts = {group.name: said(group / "cpu.cfs_quota_us") for group in groups}
        return {name: int(text) for name, text in texts.items() if text}

    def shrunk(self) -> list[str]:
        return sorted(cid for cid, quota in self.quotas().items() if quota > 0)

    def frozen(self) -> list[str]:
        folder = MOUNTS / "freezer" / self.parent.relative_to(MOUNTS / "cpu")
        groups = folder.glob("container_*")
        return sorted(g.name for g in groups if said(g / "freezer.state") == "FROZEN\n")

    def groups(self) -> list[Path]:
        return [path for path in MOUNTS.glob(f"*/{PARENT}") if path.is_dir()]

    def pid(self, container: str) -> int:
        files = self.cluster.local_dir(0).glob(f"**/nmPrivate/application_*/{container}/{container}.pid")
        return int(next(files).read_text())

    def limited(self, pids: list[int]) -> list[str]:
        """Return the CPU groups of these processes that have a quota."""
        groups = {(groups_of(pid) or {}).get("cpu", "/").strip("/") for pid in pids} - {""}
        texts = {g: MOUNTS / "cpu" / g / "cpu.cfs_quota_us" for g in groups}
        return [group for group, path in texts.items() if said(path) not in ("", "-1\n")]

    def states(self) -> dict[str, str]:
        """Return the NodeManager's own words, by container."""
        rows = self.ask_nodemanager()["containers"]
        return {row["id"]: row["state"] for row in (rows or {}).get("container", [])}

    def ask_nodemanager(self) -> Any:
        url = f"{self.address.loopback_web.url}/ws/v1/node/containers"
        return requests.get(url, timeout=60).json()

    def rm_state(self) -> str:
        nodes = requests.get(f"{self.cluster.rm_rest}/ws/v1/cluster/nodes", timeout=60).json()
        return str(nodes["nodes"]["node"][0]["state"])


def said(path: Path) -> str:
    """Return what a file of a control group says, "" when the group is gone."""
    try:
        return path.read_text()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return ""
        raise


@asynccontextmanager
async def story(cluster: Cluster, preempt: str = "las", **settings: Any) -> AsyncIterator[tuple[Node, Requester]]:
    """Run proxy, sidecar and an application for the time of a with block; no group is left behind."""
    policies = las_policies(SCALE)
    policies["preempt"] = policies["preempt"] | {"policy": preempt}
    stack = LocalDaemons(cluster, policies, sidecar=SETTINGS | settings, supervised=False)  # what dies stays dead
    stack.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    stack.start()
    node = Node(cluster, stack)
    try:
        async with requester(cluster, "preemption") as am:
            yield node, am
        await until(lambda: not node.states() or set(node.states().values()) <= {"DONE"}, "all containers are over")
    finally:
        stack.stop()
    assert node.groups() == []
    log = stack.log("node1").read_text()
    assert "Traceback" not in log, log


async def until(true: Callable[[], Any], what: str, within_s: float = 60.0) -> float:
    """Wait for something that must come; return how long it took, in seconds."""
    begun_s = time.monotonic()
    while not true():
        assert time.monotonic() < begun_s + within_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.01)
    return time.monotonic() - begun_s


async def six(node: Node, am: Requester, cpu_s: float) -> tuple[list[str], list[int]]:
    """Start six burners; return them and their processes when at least half are shrunk."""
    names = await am.run(*[burner(cpu_s)] * 6)
    await until(lambda: len(node.quotas()) == 6 and len(node.shrunk()) >= 3, "half of six are shrunk")
    return names, [node.pid(name) for name in names]


def test_a_killed_sidecar_s_containers_are_free_soon_and_the_next_one_takes_them_over(cluster: Cluster) -> None:
    async def run() -> None:
        async with story(cluster) as (node, am):
            names, pids = await six(node, am, 7.0)
            assert node.limited(pids)
            node.sidecar.kill()
            took_s = await until(lambda: not node.limited(pids), "full limits", FULL_WITHIN_S)
            cleaned_s = took_s + await until(lambda: not node.groups(), "no groups", GONE_WITHIN_S)
            print(f"SIGKILL: full limits after {took_s:.3f} s, no group after {cleaned_s:.3f} s")
            node.sidecar.wait()
            assert all(psutil.pid_exists(pid) for pid in pids)
            node.stack.start_sidecar(node.address)
            await until(lambda: len(node.quotas()) == 6 and len(node.shrunk()) >= 3, "they are shrunk again", 30)
            shown = {row["container_id"]: row["state"] for row in node.get("/v1/containers")}
            assert set(shown) == set(names)
            await am.until_ended(*names)
            assert [am.ended[name].exit_status for name in names] == [0] * 6

    asyncio.run(run())


def test_a_stopped_sidecar_gives_everything_back_first(cluster: Cluster) -> None:
    async def run() -> None:
        async with story(cluster) as (node, am):
            _, pids = await six(node, am, 60.0)
            node.sidecar.terminate()
            took_s = await until(lambda: not node.limited(pids), "full limits", FULL_WITHIN_S)
            cleaned_s = took_s + await until(lambda: not node.groups(), "no groups", GONE_WITHIN_S)
            print(f"SIGTERM: full limits after {took_s:.3f} s, no group after {cleaned_s:.3f} s")
            assert await asyncio.to_thread(node.sidecar.wait, 10) == 0
            assert all(psutil.pid_exists(pid) for pid in pids)
            config, conf_dir = node.stack.folder / "node1.yaml", cluster.node_conf_dirs[0]
            words = ["sidecar", "restore", "--config", str(config), "--conf-dir", str(conf_dir)]
            told = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-m", "quicksilver", *words],
                capture_output=True,
                timeout=30,
                text=True,
            )
            assert told.stdout == "0 containers have their full limits back\n", told

    asyncio.run(run())


def test_limits_that_somebody_rewrites_are_written_again(cluster: Cluster) -> None:
    async def run() -> None:
        async with story(cluster) as (node, am):
            await six(node, am, 60.0)
            took = []
            for _ in range(5):
                victim = max(node.shrunk())
                path = node.parent / victim / "cpu.cfs_quota_us"
                path.write_text("150000")
                took.append(await until(lambda: path.read_text() != "150000\n", "it is written again"))  # noqa: B023
                assert path.read_text() in ("5000\n", "-1\n")
                await asyncio.sleep(0.3)
            print(f"rewritten limits were mended after {', '.join(f'{s:.2f}' for s in took)} s")
            assert "another program changed the limits" in node.stack.log("node1").read_text()

    asyncio.run(run())


@pytest.mark.parametrize("way", ["stop", "release"])
def test_a_frozen_container_ends_promptly(cluster: Cluster, way: str) -> None:
    async def run() -> None:
        async with story(cluster, "freeze") as (node, am):
            await am.run(*[burner(60.0)] * 6)
            await until(lambda: len(node.frozen()) >= 3, "half of six are frozen")
            victim = max(node.frozen())
            pid, words = node.pid(victim), []
            begun_s = time.monotonic()
            if way == "stop":
                await am.stop(victim)
            else:
                am.release(victim)
            while psutil.pid_exists(pid):
                words.append(await asyncio.to_thread(lambda: node.states().get(victim, "not listed")))
                assert time.monotonic() - begun_s < 60, words
                await asyncio.sleep(0.05)
            print(f"{way}: a frozen container was gone after {time.monotonic() - begun_s:.2f} s, states {set(words)}")
            await am.until_ended(victim, within_s=15)

    asyncio.run(run())


def test_a_memory_hog_is_killed_and_nobody_else(cluster: Cluster) -> None:
    free_mb = psutil.virtual_memory().available >> 20
    settings: dict[str, Any] = {
        "fence_memory": True,
        "fence_keep_mb": free_mb - 900,
        "reserve_mb": 450,
        "guard_last_resort_mb": 250,
    }

    async def run() -> None:
        async with story(cluster, **settings) as (node, am):
            others = await am.run(*[burner(6.0)] * 4)
            await until(lambda: len(node.shrunk()) >= 2, "two of four are shrunk")
            (hog,) = await am.run(python(HOG))
            await am.until_ended(hog, within_s=40)
            status = am.ended[hog]
            print(f"the hog: {status.exit_status}: {status.diagnostics}")
            assert status.exit_status == preempted_status(APP_TYPE)
            log = node.stack.log("node1").read_text()
            assert "memory is short" in log
            assert "and asked for 256 MB" in log
            assert node.rm_state() == "RUNNING"
            await am.until_ended(*others)
            assert [am.ended[name].exit_status for name in others] == [0] * 4
            assert "last resort" in status.diagnostics, status

    asyncio.run(run())
