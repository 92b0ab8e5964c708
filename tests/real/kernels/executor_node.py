"""A node of two cores whose six containers share them, as control groups show it: of version 1, or of version 2."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import requests

from quicksilver_lab.bench.las.modes import las, las_policies
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.executors.linux_executor import LinuxExecutor
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.runtime.releases import DEFAULT
from quicksilver_lab.cluster.spec import ClusterSpec
from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup.v2 import Cgroup2
from tests.real.requester import SCALE, Requester, requester
from tests.real.test_preemption import said
from tests.sidecar.resizer.containers import needs_cgroup1

_MOUNT: Final = Path("/sys/fs/cgroup")
_CONTROLLERS: Final = _MOUNT / "cgroup.controllers"
V2: Final = _CONTROLLERS.exists() and "cpu" in _CONTROLLERS.read_text().split()
CPU: Final = _MOUNT if V2 else _MOUNT / "cpu"
QUOTA, WEIGHT = ("cpu.max", "cpu.weight") if V2 else ("cpu.cfs_quota_us", "cpu.shares")
HADOOP: Final = "3.5.0" if V2 else DEFAULT
"""For LinuxContainerExecutor: earlier ones know no cgroup v2."""
PARENT: Final = f"quicksilver-test-{os.getpid()}"
HIERARCHY: Final = f"/{PARENT}-yarn"
TOP: Final = CPU / HIERARCHY.strip("/")
"""The NodeManager's own groups."""
WITHIN_S: Final = 120.0
_SUM: Final = re.compile(r'quicksilver_sidecar_resize_seconds_(sum|count)\{action="(\w+)",[^}]*\} (\S+)')


def spec_of(executor: LinuxExecutor, hierarchy: str | None = HIERARCHY, **yarn: str) -> ClusterSpec:
    """Return a cluster of one node of two cores, as `bench.las` has it, with this executor."""
    spec = las(SCALE).spec(executor.workdir, free_base_port(1), {"default": 100})
    site = {**spec.extra_site["yarn"], **executor.site(hierarchy), **yarn}
    return spec.model_copy(update={"extra_site": {**spec.extra_site, "yarn": site}, "hadoop": HADOOP})


def needs_cgroups() -> None:
    """Skip the test where control groups of neither version can be written."""
    if not V2:
        needs_cgroup1()
        return
    try:
        Cgroup2(f"{PARENT}-may").attempt()
    except ResizeRefusedError as error:
        pytest.skip(f"no cgroup v2 to write here: {error}")


class ExecutorNode:
    """The one node of a cluster, as the NodeManager's control groups show it."""

    def __init__(self, cluster: Cluster, stack: LocalDaemons, top: Path) -> None:
        self.cluster, self.stack, self.top = cluster, stack, top
        (self.address,) = cluster.spec.node_addresses

    @property
    def sidecar(self) -> subprocess.Popen[bytes]:
        """The sidecar's process."""
        return self.stack.processes[self.address.name]

    def groups(self) -> dict[str, Path]:
        """Return the group of each container: the NodeManager's, or Docker's inside of it."""
        found: dict[str, Path] = {}
        for group in _folders(self.top):
            if group.name.startswith("container_"):
                inner = _folders(group)
                found[group.name] = inner[0] if len(inner) == 1 else group
        return found

    def values(self, name: str) -> dict[str, str]:
        """Return what a control file of each container's group says."""
        texts = {container: said(group / name).strip() for container, group in self.groups().items()}
        return {container: text for container, text in texts.items() if text}

    def shrunk(self) -> list[str]:
        """Return the containers with a quota."""
        return sorted(name for name, quota in self.values(QUOTA).items() if quota.split()[0] not in ("-1", "max"))

    def users(self) -> set[str]:
        """Return who the containers' processes belong to."""
        names = set()
        for pid in [int(pid) for text in self.values("cgroup.procs").values() for pid in text.split()]:
            with suppress(psutil.NoSuchProcess):  # the NodeManager's question about a container has ended
                names.add(psutil.Process(pid).username())
        return names

    def mean_ms(self) -> dict[str, tuple[int, float]]:
        """Return how often the sidecar shrank and restored, and how long that took on average."""
        text = requests.get(f"{self.stack.sidecar_rest(self.address).url}/metrics", timeout=60).text
        figures = {(action, kind): float(number) for kind, action, number in _SUM.findall(text)}
        return {
            action: (int(count), round(1000 * figures[action, "sum"] / count, 3))
            for (action, kind), count in figures.items()
            if kind == "count" and count
        }


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir()]
    except FileNotFoundError:  # the group went meanwhile
        return []


@asynccontextmanager
async def busy(cluster: Cluster, stack: LocalDaemons, top: Path = TOP) -> AsyncIterator[tuple[ExecutorNode, Requester]]:
    """Run proxy, sidecar and an application for the time of a with block; no group is left behind.

    top: the folder of the containers' groups: the NodeManager's, or the sidecar's own (`own_top`).
    """
    node = ExecutorNode(cluster, stack, top)
    stack.start()
    try:
        async with requester(cluster, "kernels") as am:
            yield node, am
        await until(lambda: not node.groups(), lambda: f"groups are left: {node.groups()}")
    finally:
        stack.stop()
    assert list(CPU.glob(f"**/{PARENT}")) == []
    log = stack.log(node.address.name).read_text()
    assert "Traceback" not in log, log


def own_top(cluster: Cluster) -> Path:
    """Return the folder of the sidecar's own groups."""
    (address,) = cluster.spec.node_addresses
    return CPU / PARENT / f"{address.host}-{address.rpc.port}"


def kairos(cluster: Cluster, kind: type[LocalDaemons] = LocalDaemons, **sidecar: Any) -> LocalDaemons:
    """Return proxy and sidecar under the preset `kairos`; nobody restarts what dies."""
    settings = {"vcores": 2, "cgroup": PARENT, **sidecar}
    stack = kind(cluster, las_policies(SCALE), sidecar=settings, supervised=False)
    stack.folder = cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    return stack


async def until(true: Callable[[], Any], what: Callable[[], str], within_s: float = WITHIN_S) -> float:
    """Wait for something that must come; return how long it took, in seconds."""
    begun_s = time.monotonic()
    while not true():
        assert time.monotonic() < begun_s + within_s, what()
        await asyncio.sleep(0.005)
    return time.monotonic() - begun_s


async def outlives_sigkill(node: ExecutorNode, am: Requester, gate: Path, commands: list[Any]) -> None:
    """Check that six containers share two cores, are free soon after the sidecar's death, and all end well.

    Each of the commands burns its core until the gate is there.
    """

    def seen() -> str:
        return f"{node.values(QUOTA)}\n{node.stack.log(node.address.name).read_text()[-3000:]}"

    names = await am.run(*commands)
    await until(lambda: len(node.values("cgroup.procs")) == len(commands) and len(node.shrunk()) >= 3, seen)
    weights = node.values(WEIGHT)
    print(f"{len(names)} containers of {node.users()}, weights {set(weights.values())}; {node.mean_ms()} ms")
    node.sidecar.kill()
    took_s = await until(lambda: not node.shrunk(), seen, 10)
    node.sidecar.wait()
    print(f"SIGKILL: full limits after {took_s:.3f} s")
    if node.top == TOP:
        assert node.values(WEIGHT) == weights
    else:
        await until(lambda: not node.groups(), seen, 10)
    node.stack.start_sidecar(node.address)
    await until(lambda: len(node.shrunk()) >= 3, seen)
    await asyncio.to_thread(gate.touch)
    await am.until_ended(*names)
    assert [am.ended[name].exit_status for name in names] == [0] * len(names), am.ended
    print(f"after it: {node.mean_ms()} ms")
