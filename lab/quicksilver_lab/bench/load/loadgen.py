"""The load generator: a process of its own that drives many application masters, so that it shares no interpreter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from time import perf_counter
from typing import Final

from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench.load.child_process import LoadChild
from quicksilver_lab.bench.load.masters import LoadLink, LoadMaster
from quicksilver_lab.bench.procstat import cpu_s, machine_cpu_s

CONNECT_AT_ONCE: Final = 16
_ANSWER_S: Final = 30.0


class LoadError(QuicksilverError):
    """The load generator could not carry out a phase."""


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """What the generator is to do now.

    masters: how many take part. warm_up_s, seconds: not measured, then measured. share: for each side the masters are
    drawn by number: 0 all direct, 1 all proxied, or 2: even ones direct and odd ones proxied (3: the other way round).
    interval_s: time between two heartbeats of one master, or 0: the next one goes out with the answer.
    asks_ratio: part of the heartbeats of paced masters that ask for a guaranteed container, drawn at random.
    """

    masters: int
    warm_up_s: float
    seconds: float
    share: int
    interval_s: float = 0.0
    asks_ratio: float = 0.0

    def proxied(self, number: int) -> bool:
        """Return whether a master goes through the proxy in this phase."""
        return bool(self.share) if self.share < 2 else (number + self.share) % 2 == 1


@dataclass(slots=True)
class Measured:
    """What a phase showed. latency_us: of [direct, proxied], each in the order of the answers."""

    seconds: float = 0.0
    latency_us: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    cpu_s: dict[str, float] = field(default_factory=dict)
    """By process, and of the whole `machine`."""
    late_ms: float = 0.0
    """Paced: how far behind its schedule the generator was at worst."""
    granted: int = 0
    """Containers that the masters were granted."""


class LoadGenerator:
    """The masters, and the phases that they go through."""

    def __init__(self, direct: tuple[str, int], proxied: tuple[str, int], pids: dict[str, int]) -> None:
        self._direct, self._proxied, self._pids = direct, proxied, pids | {"generator": os.getpid()}
        self._masters: list[LoadMaster] = []
        self._result = Measured()
        self._stopping = False
        self._outstanding = 0
        self._done: asyncio.Event = asyncio.Event()
        self._broken: Exception | None = None

    async def connect(self, tokens: Sequence[bytes]) -> None:
        """Add masters, one per serialised AMRMToken, each connected both ways and registered."""
        limit = asyncio.Semaphore(CONNECT_AT_ONCE)

        async def start(token: bytes) -> LoadMaster:
            async with limit:
                master = LoadMaster(TokenProto.FromString(token))
                await master.start(self._direct, self._proxied)
                return master

        self._masters += await asyncio.gather(*(start(token) for token in tokens))

    async def run(self, phase: LoadPhase) -> Measured:
        """Carry out a phase and return what it showed. Raises LoadError when a connection broke."""
        masters = self._masters[: phase.masters]
        links = [master.link(phase.proxied(number)) for number, master in enumerate(masters)]
        self._result, self._stopping, self._outstanding = Measured(), False, 0
        self._done.clear()
        begin = self._paced(links, phase) if phase.interval_s else self._closed(links)
        sender = asyncio.ensure_future(begin)
        await asyncio.sleep(phase.warm_up_s)
        await self._measure(phase)
        self._stopping = True
        await sender
        if self._outstanding:
            try:
                await asyncio.wait_for(self._done.wait(), _ANSWER_S)
            except TimeoutError:
                raise LoadError(f"{self._outstanding} heartbeats had no answer{_first_loss(links)}") from None
        lost = _first_loss(links)
        if lost:
            raise LoadError(f"a connection broke{lost}")
        return self._result

    async def _measure(self, phase: LoadPhase) -> None:
        result = self._result
        result.latency_us = ([], [])
        result.late_ms = 0.0
        granted = self._granted()
        before, start_s = self._cpu_s(), perf_counter()
        await asyncio.sleep(phase.seconds)
        result.seconds = perf_counter() - start_s
        result.granted = self._granted() - granted
        result.cpu_s = {name: used_s - before[name] for name, used_s in self._cpu_s().items()}
        result.latency_us = (result.latency_us[0][:], result.latency_us[1][:])  # later answers do not count

    def _granted(self) -> int:
        return sum(master.granted for master in self._masters)

    def _cpu_s(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids.items()} | {"machine": machine_cpu_s()}

    async def _closed(self, links: list[LoadLink]) -> None:
        self._outstanding = len(links)
        for number, link in enumerate(links):
            link.beat(self._next)
            if number % 64 == 63:
                await asyncio.sleep(0)

    def _next(self, link: LoadLink, now_s: float, took_s: float) -> None:
        if self._stopping:
            self._answered_last()
            return
        self._result.latency_us[link.proxied].append(int(took_s * 1e6))
        link.beat(self._next)

    async def _paced(self, links: list[LoadLink], phase: LoadPhase) -> None:
        """Send evenly spread over the interval; a master whose answer is outstanding skips its turn."""
        spacing_s, rng = phase.interval_s / len(links), Random(len(links))
        start_s, turn = perf_counter(), 0
        while not self._stopping:
            behind_s = perf_counter() - (start_s + turn * spacing_s)
            if behind_s < 0:
                await asyncio.sleep(-behind_s)
                continue
            self._result.late_ms = max(self._result.late_ms, behind_s * 1e3)
            link = links[turn % len(links)]
            turn += 1
            if not link.busy:
                self._outstanding += 1
                link.beat(self._paced_answer, phase.asks_ratio > 0 and rng.random() < phase.asks_ratio)

    def _paced_answer(self, link: LoadLink, now_s: float, took_s: float) -> None:
        self._result.latency_us[link.proxied].append(int(took_s * 1e6))
        self._answered_last()

    def _answered_last(self) -> None:
        self._outstanding -= 1
        if self._stopping and not self._outstanding:
            self._done.set()

    async def close(self) -> None:
        """Hang up."""
        for master in self._masters:
            master.direct.close()
            master.proxied.close()


def _first_loss(links: list[LoadLink]) -> str:
    for link in links:
        if link.lost is not None:
            return f" ({'proxied' if link.proxied else 'direct'}: {link.lost})"
    return ""


class LoadProcess(LoadChild):
    """The generator in its process; use it in a with block."""

    def __init__(self, direct: tuple[str, int], proxied: tuple[str, int], pids: dict[str, int]) -> None:
        super().__init__("load generator", partial(LoadGenerator, direct, proxied, pids))

    def connect(self, tokens: Sequence[bytes]) -> None:
        """Add masters by their tokens. Raises ChildError."""
        self.call("connect", list(tokens))

    def run(self, phase: LoadPhase) -> Measured:
        """Carry out a phase. Raises ChildError."""
        measured = self.call("run", phase)
        assert isinstance(measured, Measured)
        return measured
