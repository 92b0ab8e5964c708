"""What the benchmark runs against: a real ResourceManager, the proxy as users run it, unmanaged applications."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.yarn.yarn_client import RmClient
from quicksilver_lab.bench.las.master import APP_TYPE, title
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons

RM_OPTIONS: Final = ("-Xmx2g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
_USER: Final = "bench"
_CLIENTS: Final = 8
_SHOWN_EVERY: Final = 200
_START_S: Final = 30.0

Progress = Callable[[str], None]


def spec(workdir: Path, base_port: int) -> ClusterSpec:
    """Return a cluster that admits thousands of applications, with one NodeManager on which nothing runs."""
    return ClusterSpec(
        workdir=workdir,
        base_port=base_port,
        nodes=1,
        yarn_only=True,
        node_memory_mb=65536,
        min_allocation_mb=1,
        queues={"default": 100},
        extra_site={
            "yarn": {"yarn.am.liveness-monitor.expiry-interval-ms": "3600000"},
            "capacity-scheduler": {
                "yarn.scheduler.capacity.maximum-applications": "20000",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
            },
        },
        rm_java_opts=RM_OPTIONS,
    )


@dataclass(frozen=True, slots=True)
class Rig:
    """The running system; addresses and process ids."""

    direct: tuple[str, int]
    proxied: tuple[str, int]
    rm_client: tuple[str, int]
    pids: dict[str, int]
    """Of `rm` and `proxy`."""


@contextmanager
def running(workdir: Path, base_port: int, progress: Progress) -> Iterator[Rig]:
    """Run cluster and proxy for the time of a with block. Raises ClusterError, LocalDaemonsError."""
    cluster = Cluster(spec(workdir, base_port))
    cluster.start(progress=progress)
    try:
        with behind_proxy(cluster) as rig:
            yield rig
    finally:
        cluster.stop()


@contextmanager
def behind_proxy(cluster: Cluster) -> Iterator[Rig]:
    """Run a proxy in front of a running cluster for the time of a with block. Raises QuicksilverError."""
    stack = LocalDaemons(cluster)
    stack.folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.start_proxy()
        _await(cluster.spec.scheduler, stack)
        rm = next(daemon.pid for daemon in cluster.status().daemons if daemon.name == "resourcemanager")
        proxy = stack.pid("proxy")
        assert proxy is not None, "the proxy ended"
        pids = {"rm": rm, "proxy": proxy}
        yield Rig(cluster.spec.moved_scheduler, cluster.spec.scheduler, cluster.spec.rm_client, pids)
    finally:
        stack.stop()


def _await(address: tuple[str, int], stack: LocalDaemons) -> None:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s and stack.processes["proxy"].poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(address) == 0:
                return
        time.sleep(0.1)
    raise QuicksilverError("the proxy did not come up", place="bench", remedy=f"read {stack.log('proxy')}")


async def submit(
    address: tuple[str, int], count: int, progress: Progress, app_type: str = APP_TYPE, name: str = "of bench relay"
) -> list[bytes]:
    """Submit unmanaged applications, several at a time; return their serialised AMRMTokens.

    app_type: presets treat APP_TYPE as the distributed shell. Raises RemoteCallError, RuntimeError when one is not
    admitted, TimeoutError.
    """
    tokens: list[bytes] = []
    numbers = iter(range(count))

    async def work() -> None:
        async with RmClient(*address, user=_USER) as client:
            for _ in numbers:
                app_id = await client.submit_unmanaged(name=title(name), app_type=app_type)
                token = await client.am_rm_token(app_id, timeout_s=120.0)
                tokens.append(token.SerializeToString())
                if len(tokens) % _SHOWN_EVERY == 0 or len(tokens) == count:
                    progress(f"{len(tokens)} of {count} applications submitted")

    async with asyncio.TaskGroup() as group:
        for _ in range(min(_CLIENTS, count)):
            group.create_task(work())
    return tokens
