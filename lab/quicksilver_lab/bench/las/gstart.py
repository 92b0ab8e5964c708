"""From a guaranteed container's startContainers to its process running, on a node full of queueable ones.

Under LAS they run side by side and give way; under kill_newest, and by stock YARN's NodeManager, the newest are killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hadoop_rpc.protos import yarn_pb2
from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.yarn.yarn_client import AmClient, NmClient, RmClient
from quicksilver_lab.bench.las import modes
from quicksilver_lab.bench.las.jobs import JobStage, LasScale
from quicksilver_lab.bench.las.master import (
    APP_TYPE,
    USER,
    LasMaster,
    LasSite,
    container_name,
    rows,
    title,
    unregister,
)
from quicksilver_lab.bench.las.modes import EXTRA, Mode, Progress
from quicksilver_lab.bench.las.umbilical import Note, opened
from quicksilver_lab.bench.las.workload import Pace, site
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster import Cluster

QUEUES: Final = {"default": 50, "guaranteed": 50}
_ROUTES: Final = ({"match": {"queue": "root.guaranteed"}, "policy": "only_g"}, {"policy": "only_q"})
_ENDLESS_S: Final = 1e6
_TASK_S: Final = 0.05
"""What the guaranteed process does before it ends, so that it is gone before the next one."""
_POLL_S: Final = 0.05
_FULL_S: Final = 60.0
_START_S: Final = 60.0


class NotFullError(QuicksilverError):
    """The node could not be brought into the state in which starts are measured."""


@dataclass(slots=True)
class LasStarts:
    """What one mode showed. running: the fillers' processes just before each start; killed: of them, in all."""

    ms: list[float] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    killed: int = 0

    def figures(self) -> dict[str, Any]:
        """Return p50 and p99 and what they are of."""
        return {
            "p50_ms": round(percentile(self.ms, 50), 1),
            "p99_ms": round(percentile(self.ms, 99), 1),
            "max_ms": round(max(self.ms), 1),
            "starts": len(self.ms),
            "running_at_least": min(self.running),
            "killed_containers": self.killed,
        }


def modes_of(scale: LasScale) -> dict[str, Mode]:
    """Return the modes by the name that their figures have."""
    las, kill, stock = modes.las(scale), modes.kill_newest(scale), modes.opportunistic(scale)
    room = (
        scale.cores + EXTRA + 1
    )  # the NodeManager would kill a queueable one if it had no room for all and the guaranteed
    return {
        "las": replace(las, name="gstart-las", vcores=room, policies=modes.las_policies(scale, _ROUTES)),
        "kill": replace(kill, name="gstart-kill", policies=modes.killing_policies(_ROUTES)),
        "stock": replace(stock, name="gstart-stock"),
    }


class Starter:
    """The application of guaranteed containers, granted and started one at a time."""

    def __init__(self, where: LasSite) -> None:
        """Prepare; `connected` brings it to life."""
        self._site = replace(where, opportunistic=False)
        self._am: AmClient | None = None
        self._tokens: dict[tuple[str, int], Any] = {}
        self._node: NmClient | None = None
        self._over: set[str] = set()

    async def connect(self) -> None:
        """Submit and register."""
        async with RmClient(*self._site.rm, user=USER) as rm:
            app_id = await rm.submit_unmanaged(name=title("guaranteed"), queue="guaranteed", app_type=APP_TYPE)
            token = await rm.am_rm_token(app_id)
        self._am = AmClient(*self._site.scheduler, token)
        await self._am.connect()
        await self._am.register()

    async def close(self) -> None:
        """Unregister and hang up."""
        if self._node is not None:
            await self._node.close()
        if self._am is not None:
            try:
                await unregister(self._am, yarn_pb2.APP_SUCCEEDED)
            finally:
                await self._am.close()

    async def granted(self) -> yarn_pb2.ContainerProto:
        """Ask for one guaranteed container and wait for it; connect to its node."""
        asks = rows(1, 1, (), opportunistic=False)
        while True:
            containers = await self._beat(asks)
            if containers:
                break
            asks = []
            await asyncio.sleep(_POLL_S)
        address = (containers[0].nodeId.host, containers[0].nodeId.port)
        if self._node is None:
            self._node = NmClient(*address, self._tokens[address])
            await self._node.connect()
        return containers[0]

    async def _beat(self, asks: list[yarn_pb2.ResourceRequestProto]) -> list[yarn_pb2.ContainerProto]:
        assert self._am is not None, "connect first"
        answer = await self._am.allocate(yarn_pb2.AllocateRequestProto(progress=0.5, ask=asks))
        self._tokens |= {(token.nodeId.host, token.nodeId.port): token.token for token in answer.nm_tokens}
        self._over |= {container_name(status.container_id) for status in answer.completed_container_statuses}
        return list(answer.allocated_containers)

    async def start(self, container: yarn_pb2.ContainerProto) -> float:
        """Start it; return the milliseconds from sending the request to the begin of its process.

        Raises TimeoutError, ContainerRefusedError.
        """
        assert self._node is not None, "nothing was granted"
        name = container_name(container.id)
        begun: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def heard(note: Note) -> None:
            if note.begin:
                begun.set_result(note.at_s)

        self._site.umbilical.listen(name, heard)
        try:
            sent_s = time.time()
            await self._node.start(container, self._site.umbilical.command(name, _TASK_S))
            async with asyncio.timeout(_START_S):
                return (await begun - sent_s) * 1e3
        finally:
            self._site.umbilical.forget(name)

    async def ended(self, container: yarn_pb2.ContainerProto) -> None:
        """Wait until the ResourceManager reports the end of the container."""
        while container_name(container.id) not in self._over:
            await asyncio.sleep(_POLL_S)
            await self._beat([])


async def _full(filler: LasMaster, life: asyncio.Task[None], fillers: int, alive: int) -> None:
    """Wait until so many fillers are granted and so many of them run. Raises NotFullError."""
    for _ in range(int(_FULL_S / _POLL_S)):
        if life.done():
            break
        if filler.container_count >= fillers and filler.alive >= alive:
            return
        await asyncio.sleep(_POLL_S)
    raise NotFullError(
        f"{filler.container_count} of {fillers} queueable containers are granted, {filler.alive} of {alive} run",
        place="bench.las",
        remedy=_why(filler, life) or "read the logs of the cluster's folder",
    )


def _why(filler: LasMaster, life: asyncio.Task[None]) -> str:
    ended = str(life.exception()) if life.done() and not life.cancelled() and life.exception() else filler.broken
    return "; ".join([ended, *filler.counts.reasons[-3:]]).strip("; ")


async def starts(where: LasSite, count: int, alive: int, fillers: int) -> LasStarts:
    """Fill the node with endless tasks, `alive` of `fillers` running; then start `count` guaranteed containers."""
    filler = LasMaster(replace(where, heartbeat_s=0.2), [JobStage(20, fillers, _ENDLESS_S)], name="filler")
    life = asyncio.create_task(filler.run())
    starter, result = Starter(where), LasStarts()
    try:
        await starter.connect()
        for _ in range(count):
            container = await starter.granted()
            await _full(filler, life, fillers, alive)
            result.running.append(filler.alive)
            result.ms.append(await starter.start(container))
            await starter.ended(container)
        result.killed = filler.counts.killed + filler.counts.failed
        filler.stop()
        await life
    finally:
        life.cancel()
        await starter.close()
    return result


def measure(
    scale: LasScale, count: int, by_mode: dict[str, LasStarts], workdir: Path, base_port: int, progress: Progress
) -> None:
    """Put the starts of each mode into `by_mode`: `las`, `kill`, `stock`. Raises QuicksilverError."""
    for name, mode in modes_of(scale).items():
        alive = scale.cores + EXTRA if name == "las" else scale.cores
        with modes.running(mode, workdir, base_port, progress, QUEUES) as cluster:
            by_mode[name] = asyncio.run(_measure(cluster, mode, count, alive, scale.cores + EXTRA))
        shown = by_mode[name].figures()
        progress(f"{mode.name}: {count} starts, p50 {shown['p50_ms']} ms, p99 {shown['p99_ms']} ms")


async def _measure(cluster: Cluster, mode: Mode, count: int, alive: int, fillers: int) -> LasStarts:
    with opened(cluster.spec.workdir / "tasks.pipe") as umbilical:
        return await starts(site(cluster, mode, umbilical, Pace()), count, alive, fillers)


def figures(by_mode: Mapping[str, LasStarts]) -> dict[str, Any]:
    """Return the keys of the result: g_start_p50_ms and g_start_p99_ms of LAS, with _kill and _stock of the others."""
    result: dict[str, Any] = {}
    for name, sample in by_mode.items():
        ending, shown = "" if name == "las" else f"_{name}", sample.figures()
        result[f"g_start_p50_ms{ending}"], result[f"g_start_p99_ms{ending}"] = shown["p50_ms"], shown["p99_ms"]
    return result | ({"g_start": {name: sample.figures() for name, sample in by_mode.items()}} if by_mode else {})
