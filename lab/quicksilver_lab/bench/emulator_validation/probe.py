"""What a real NodeManager takes for a container: from a start to its process, from its end, from a kill.

Measured apart from the workloads, with containers that do next to nothing, so that the emulated nodes' delays do not
come from what they are compared with. Once NodeManagers are warm, containers start one after another, as far apart as
tasks follow each other on a full cluster: a NodeManager that launches many at once takes longer for each.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, NmClient, RmClient
from quicksilver_lab.bench.las.jobs import MAP_PRIORITY
from quicksilver_lab.bench.las.master import APP_TYPE, container_name, rows, unregister
from quicksilver_lab.bench.las.umbilical import Note, Umbilical, opened
from quicksilver_lab.bench.policies.real import sleeping

_USER: Final = "bench"
_POLL_S: Final = 0.005
_BEAT_S: Final = 0.2
_SLEEP_S: Final = 1.0
_LONG_S: Final = 600.0
_LIMIT_S: Final = 60.0
_WARM_WAVES: Final = 3
_WAVES: Final = 2


@dataclass(slots=True)
class ProbeDelays:
    """Samples, in seconds."""

    launch_s: list[float] = field(default_factory=list)
    """From the call that starts a container to the first word of its process."""
    exit_s: list[float] = field(default_factory=list)
    """From the last word of a process to the NodeManager's word that the container is complete."""
    kill_s: list[float] = field(default_factory=list)
    """From the call that stops a container to that word."""


@dataclass(slots=True)
class _Probe:
    """One container."""

    container: y.ContainerProto
    node: NmClient
    sent_s: float = 0.0
    began: asyncio.Event = field(default_factory=asyncio.Event)
    began_s: float = 0.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_s: float = 0.0

    def note(self, note: Note) -> None:
        """Handle a message of its process."""
        if note.begin:
            self.began_s = note.at_s
            self.began.set()
        else:
            self.ended_s = note.at_s
            self.ended.set()


class _Waves:
    """One application that asks for waves of containers."""

    def __init__(self, am: AmClient, umbilical: Umbilical) -> None:
        self.delays = ProbeDelays()
        self._am, self._umbilical = am, umbilical
        self._tokens: dict[tuple[str, int], TokenProto] = {}

    async def wave(self, count: int, apart_s: float, kill: bool) -> None:
        """Start so many, so far apart; let each end, or kill it. Raises TimeoutError and what the calls raise."""
        async with asyncio.timeout(_LIMIT_S):
            granted = await self._granted(count)
            probes = [_Probe(container, await self._connected(container)) for container in granted]
            await asyncio.gather(*(self._live(probe, n * apart_s, kill) for n, probe in enumerate(probes)))
            for probe in probes:
                self._umbilical.forget(container_name(probe.container.id))
                await probe.node.close()

    async def _granted(self, count: int) -> list[y.ContainerProto]:
        containers: list[y.ContainerProto] = []
        request = y.AllocateRequestProto(progress=0.5)
        request.ask.extend(rows(MAP_PRIORITY, count, (), opportunistic=False))
        while len(containers) < count:
            answer = await self._am.allocate(request)
            request = y.AllocateRequestProto(progress=0.5)
            for token in answer.nm_tokens:
                self._tokens[token.nodeId.host, token.nodeId.port] = token.token
            containers.extend(answer.allocated_containers)
            await asyncio.sleep(_BEAT_S)
        return containers

    async def _connected(self, container: y.ContainerProto) -> NmClient:
        address = container.nodeId.host, container.nodeId.port
        client = NmClient(*address, self._tokens[address])
        await client.connect()
        return client

    async def _live(self, probe: _Probe, after_s: float, kill: bool) -> None:
        await asyncio.sleep(after_s)
        await self._start(probe, _LONG_S if kill else _SLEEP_S)
        await (self._stop(probe) if kill else self._end(probe))

    async def _start(self, probe: _Probe, seconds: float) -> None:
        name = container_name(probe.container.id)
        self._umbilical.listen(name, probe.note)
        command = self._umbilical.command(name, seconds)
        probe.sent_s = time.time()
        await probe.node.start(probe.container, command)
        await probe.began.wait()
        self.delays.launch_s.append(probe.began_s - probe.sent_s)

    async def _end(self, probe: _Probe) -> None:
        await probe.ended.wait()
        self.delays.exit_s.append(await self._complete_s(probe) - probe.ended_s)

    async def _stop(self, probe: _Probe) -> None:
        begun_s = time.time()
        await probe.node.stop(probe.container.id)
        self.delays.kill_s.append(await self._complete_s(probe) - begun_s)

    async def _complete_s(self, probe: _Probe) -> float:
        """Return when the NodeManager called the container complete."""
        while True:
            if (await probe.node.status(probe.container.id)).state == y.C_COMPLETE:
                return time.time()
            await asyncio.sleep(_POLL_S)


async def measure(
    rm: tuple[str, int], scheduler: tuple[str, int], slots: int, apart_s: float, pipe: Path
) -> ProbeDelays:
    """Measure on a running cluster that nobody else uses, of so many slots; apart_s: between two starts.

    Raises RemoteCallError, ContainerRefusedError, RuntimeError, OSError, TimeoutError.
    """
    async with RmClient(*rm, user=_USER) as client:
        app_id = await client.submit_unmanaged(name="probe", app_type=APP_TYPE)
        token = await client.am_rm_token(app_id)
    with opened(pipe, sleeping) as umbilical:
        async with AmClient(*scheduler, token) as am:
            await am.register()
            waves = _Waves(am, umbilical)
            for _ in range(_WARM_WAVES):
                await waves.wave(slots, 0.0, kill=False)
            waves.delays = ProbeDelays()
            for _ in range(_WAVES):
                for kill in (False, True):
                    await waves.wave(slots, apart_s, kill)
            await unregister(am, y.APP_SUCCEEDED)
    return waves.delays
