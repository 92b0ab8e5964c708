"""A few masters that ask for one queueable container at a time, in a process of their own, and measure its grant."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import sub
from time import perf_counter
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.own_numbers import FIRST_NUMBER, may_be_ahead
from quicksilver_lab.bench.emulator.masters.asks import MasterAsks
from quicksilver_lab.bench.emulator.masters.links import Address, NodeLinks, Outcome
from quicksilver_lab.bench.emulator.masters.session import MasterSession
from quicksilver_lab.bench.load.child_process import LoadChild
from quicksilver_lab.bench.load.masters import ASK_MB
from quicksilver_lab.bench.procstat import cpu_s, machine_cpu_s

PATIENCE_S: Final = 10.0
"""Time after which an ask that no answer granted is taken back."""
_RUNS_S: Final = 0.1
_LINKS: Final = 2000
_NUMBER: Final = (1 << 40) - 1
"""Mask of a container's number in its id."""


class ProbeError(QuicksilverError):
    """The probes could not measure."""


@dataclass(frozen=True, slots=True)
class ProbePhase:
    """What the probes are to do now.

    rate: asks a second of all of them. beat_s: time from an answer that grants nothing to the next call.
    """

    warm_up_s: float
    seconds: float
    rate: float
    beat_s: float


@dataclass(frozen=True, slots=True)
class GrantSample:
    """One grant. call_us: of the call whose answer brought it; since_ask_us: from the ask on, with the calls before."""

    call_us: int
    since_ask_us: int
    calls: int
    number: int
    """Of the container: the low 40 bits of its id."""

    @property
    def own(self) -> bool:
        """Whether the proxy made the container."""
        return self.number > FIRST_NUMBER

    @property
    def ahead(self) -> bool:
        """Whether the proxy might deliver it before the ResourceManager knew it."""
        return may_be_ahead(self.number)


@dataclass(slots=True)
class ProbeResult:
    """What a phase showed, of asks that were sent within its `seconds`."""

    seconds: float = 0.0
    grants: list[GrantSample] = field(default_factory=list)
    late_us: list[int] = field(default_factory=list)
    """How much later than planned each ask was sent."""
    skipped: int = 0
    """Asks that were not sent since their master still waited for the one before."""
    missing: int = 0
    """Asks that no answer granted within PATIENCE_S."""
    refused: int = 0
    """Containers that their nodes did not start."""
    reconnects: int = 0
    """Connections of the probes that broke: the latencies of their calls say nothing."""
    cpu_s: dict[str, float] = field(default_factory=dict)
    """By process, and of the whole `machine`."""


class ProbeMaster:
    """One master. `probe` asks for a container and returns when it is there; it then runs for a moment at its node."""

    def __init__(self, number: int, session: MasterSession, priority: int, links: NodeLinks) -> None:
        """Prepare. priority: of the asks, which also says whether they are opportunistic."""
        self.busy = False
        self.refused = 0
        self._number, self._session, self._priority, self._links = number, session, priority, links
        self._asks = MasterAsks(ASK_MB)
        self._tokens: dict[Address, TokenProto] = {}
        self._releases: list[y.ContainerIdProto] = []

    @property
    def reconnects(self) -> int:
        """How often its connection broke."""
        return self._session.reconnects

    async def start(self) -> None:
        """Register. Raises what MasterSession raises."""
        await self._session.register()

    async def probe(self, beat_s: float) -> GrantSample | None:
        """Ask for a container; return None where there was none within PATIENCE_S. Raises ProbeError, OSError."""
        self.busy = True
        try:
            self._asks.add(self._priority, ())
            began_s, calls = perf_counter(), 0
            while True:
                calls += 1
                request = self._request()
                sent_s = perf_counter()
                answer = await self._session.allocate(request)
                now_s = perf_counter()
                containers = self._answered(answer)
                if containers:
                    number = containers[0].id.id & _NUMBER
                    return GrantSample(int((now_s - sent_s) * 1e6), int((now_s - began_s) * 1e6), calls, number)
                if now_s - began_s > PATIENCE_S:
                    self._asks.take(self._priority, ())
                    return None
                await asyncio.sleep(beat_s)
        finally:
            self.busy = False

    def _request(self) -> y.AllocateRequestProto | None:
        if not (self._asks.changed or self._releases):
            return None
        request = y.AllocateRequestProto(ask=self._asks.drain(), release=self._releases, progress=0.5)
        request.blacklist_request.SetInParent()
        self._releases = []
        return request

    def _answered(self, answer: y.AllocateResponseProto | None) -> Sequence[y.ContainerProto]:
        """Start what was granted; return it."""
        if answer is None:
            raise ProbeError("the ResourceManager forgot a probe", remedy="read its log")
        for token in answer.nm_tokens:
            self._tokens[token.nodeId.host, token.nodeId.port] = token.token
        for container in answer.allocated_containers:
            self._asks.take(self._priority, ())
            self._start(container)
        return answer.allocated_containers

    def _start(self, container: y.ContainerProto) -> None:
        token = self._tokens.get((container.nodeId.host, container.nodeId.port))
        if token is None:
            self._refused(container.id)
            return
        command = f"emulated {_RUNS_S:.3f}"
        self._links.start(self._number, token, container, command, partial(self._started, container.id))

    def _started(self, container_id: y.ContainerIdProto, outcome: Outcome) -> None:
        if isinstance(outcome, bytes) and not y.StartContainersResponseProto.FromString(outcome).failed_requests:
            return
        self._refused(container_id)

    def _refused(self, container_id: y.ContainerIdProto) -> None:
        """Handle a container that did not start: it is given back."""
        self.refused += 1
        self._releases.append(container_id)

    def close(self) -> None:
        """Hang up."""
        self._session.close()


class Probes:
    """The masters, and the phases that they go through; lives in a process of its own."""

    def __init__(self, scheduler: Address, priority: int, pids: dict[str, int]) -> None:
        """Prepare. scheduler: what the masters dial. pids: processes whose CPU time is measured."""
        self._scheduler, self._priority, self._pids = scheduler, priority, pids | {"probes": os.getpid()}
        self._masters: list[ProbeMaster] = []
        self._links = NodeLinks(_LINKS)
        self._result = ProbeResult()

    async def connect(self, tokens: Sequence[bytes]) -> None:
        """Add masters, one for each serialised AMRMToken, and register them."""
        for token in tokens:
            session = MasterSession(self._scheduler, TokenProto.FromString(token))
            master = ProbeMaster(len(self._masters), session, self._priority, self._links)
            self._masters.append(master)
            await master.start()
        gc.collect()
        gc.freeze()  # so that no latency has the collector's pauses

    async def run(self, phase: ProbePhase) -> ProbeResult:
        """Carry out a phase; return what it showed. Raises ProbeError, OSError, RemoteCallError."""
        self._result = ProbeResult()
        await self._paced(phase, phase.warm_up_s)
        result = self._result = ProbeResult()
        counts = self._counts()
        before, start_s = self._cpu_s(), perf_counter()
        await self._paced(phase, phase.seconds)
        result.seconds = perf_counter() - start_s
        result.cpu_s = {name: used_s - before[name] for name, used_s in self._cpu_s().items()}
        result.refused, result.reconnects = map(sub, self._counts(), counts)
        return result

    async def _paced(self, phase: ProbePhase, seconds: float) -> None:
        """Send asks evenly over `seconds`; return when each has its answer. Raises the first failure of a probe."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._send(phase, seconds, group)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _send(self, phase: ProbePhase, seconds: float, group: asyncio.TaskGroup) -> None:
        start_s = perf_counter()
        for turn in range(round(seconds * phase.rate)):
            due_s = start_s + turn / phase.rate
            await asyncio.sleep(max(0.0, due_s - perf_counter()))
            master = self._masters[turn % len(self._masters)]
            if master.busy:
                self._result.skipped += 1
                continue
            self._result.late_us.append(int((perf_counter() - due_s) * 1e6))
            group.create_task(self._measure_one(master, phase.beat_s))

    async def _measure_one(self, master: ProbeMaster, beat_s: float) -> None:
        sample = await master.probe(beat_s)
        if sample is None:
            self._result.missing += 1
        else:
            self._result.grants.append(sample)

    def _counts(self) -> tuple[int, int]:
        """Return refused starts and broken connections of all up to now."""
        masters = self._masters
        return sum(master.refused for master in masters), sum(master.reconnects for master in masters)

    def _cpu_s(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids.items()} | {"machine": machine_cpu_s()}

    async def close(self) -> None:
        """Hang up."""
        for master in self._masters:
            master.close()
        await self._links.close()


class ProbesProcess(LoadChild):
    """The probes in their process; use it in a with block."""

    def __init__(self, scheduler: Address, priority: int, pids: dict[str, int]) -> None:
        super().__init__("probes", partial(Probes, scheduler, priority, pids))

    def connect(self, tokens: Sequence[bytes]) -> None:
        """Add masters by their tokens. Raises ChildError."""
        self.call("connect", list(tokens))

    def run(self, phase: ProbePhase) -> ProbeResult:
        """Carry out a phase. Raises ChildError."""
        result = self.call("run", phase)
        assert isinstance(result, ProbeResult)
        return result
