"""An emulated node with quicksilver: the sidecar of production before an emulated NodeManager, in one process.

What runs is the product's: `sidecar.service.dispatcher.Dispatcher` with its node machine, a gate for every connection
of an application master, late starts and kills as calls of its own on kept sessions, `Reporter` and `ResizeExecutor`.
Emulated is what it would find on a machine: the NodeManager is reached through a pipe in the process and no socket; the
NodeManager reports when processes begin and end, in place of pid files and pidfds; a resizer slows timers, in place of
control groups. Left out: the journal (nothing restarts here), the NodeManager's REST, and the physical memory of the
machine, which is never short.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from policies.config.policy_set import Policies
from policies.model import ContainerView, Resources
from quicksilver.common.address import Address
from quicksilver.common.messages import ContainerEvent, Draining, Grants, Report
from quicksilver_lab.bench.emulator.pipe import join
from quicksilver_lab.bench.emulator.reports import NodeRest, ProxyLine, Traffic
from sidecar.config import SidecarSettings
from sidecar.connections.acceptor import Acceptor
from sidecar.connections.connection import Connection
from sidecar.connections.event_queue import EventQueue
from sidecar.connections.gate_runner import GateRunner
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Drain, Dropped, Ended, Granted, NowKnown
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.report_view import fill_report
from sidecar.node.sharing import Sharing
from sidecar.resizer.base import ContainerUsage, Leader
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.processes.process_watch import ProcessWatcher
from sidecar.service.proxy_answers import handle_ack
from sidecar.service.reporter import Reporter
from sidecar.service.resizing.resize_executor import ResizeExecutor

_PIPE: Final = Address("pipe", 0)
_MOMENTS: Final = 5
"""A quantum is measured so many times at least, as `sidecar.service.monitor` does."""


class Processes(Protocol):
    """What a site needs of the emulated NodeManager."""

    def connected(self) -> asyncio.Protocol:
        """Return the NodeManager's side of a new connection."""

    def speed(self, container_id: str, ratio: float) -> None:
        """Have a container's process run so much slower from now on (1: as fast as it can); unknown ones are over."""

    def served_s(self, container_id: str) -> float | None:
        """Return the seconds at full speed that a container's process has had; None when there is none."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the sites of one process share."""

    policies: Policies
    settings: SidecarSettings
    proxy: tuple[str, int]
    """Where the proxy takes reports."""
    metrics: SidecarMetrics
    traffic: Traffic


class Slow:
    """A resizer whose containers are timers; `sidecar.resizer.base.Resizer`."""

    name, slow, pauses_only = "emulated", False, False

    def __init__(self, processes: Processes, vcores: float) -> None:
        self._processes, self._vcores = processes, vcores
        self._limits: dict[str, float] = {}
        """What containers in hand may use, in cores."""
        self._demands: dict[str, float] = {}
        """What they would use, in cores."""

    def size(self, container_id: str, vcores: float) -> None:
        """Record how many cores a container uses."""
        self._demands[container_id] = vcores
        self._share()

    def over(self, container_id: str) -> None:
        """Handle the end of a container's process."""
        self._demands.pop(container_id, None)
        self._limits.pop(container_id, None)
        self._share()

    def _share(self) -> None:
        """Slow everything evenly where more cores are wanted than there are."""
        shares = {cid: min(demand, self._limits.get(cid, demand)) for cid, demand in self._demands.items()}
        total = sum(shares.values())
        crowd = min(1.0, self._vcores / total) if total else 1.0
        for container_id, cores in shares.items():
            self._processes.speed(container_id, crowd * cores / self._demands[container_id])

    def attach(self, container_id: str, leader: Leader) -> None:
        """Take a container into hand."""

    def shrink(self, container_id: str, cores: float) -> None:
        """Bound a container to so many cores."""
        self._limits[container_id] = cores
        self._share()

    def freeze(self, container_id: str) -> None:
        """Let a container stand still."""
        self.shrink(container_id, 0.0)

    def restore(self, container_id: str) -> None:
        """Let a container run freely."""
        self._limits.pop(container_id, None)
        self._share()

    def holds(self, container_id: str) -> bool:
        """Tell that nobody else changes limits."""
        return True

    def reassert(self, container_id: str) -> None:
        """Leave what holds."""

    def usage(self, container_id: str) -> ContainerUsage:
        """Return the CPU that a container has had."""
        served_s = self._processes.served_s(container_id)
        return ContainerUsage(None if served_s is None else served_s * self._demands.get(container_id, 1.0), None)

    def detach(self, container_id: str) -> None:
        """Let go."""
        self.restore(container_id)

    def undo(self, container_id: str) -> dict[str, str | float | int | list[int]]:
        """Return nothing: timers do not outlive the process."""
        return {}

    def parents(self) -> list[str]:
        """Return nothing."""
        return []

    def close(self) -> None:
        """Leave nothing behind."""


class _Nobody:
    """In place of the guardian: when the process dies, its timers do."""

    def put(self, container_id: str, undo: Mapping[str, object]) -> bool:
        return True

    def drop(self, container_id: str) -> None:
        pass

    def clean(self, groups: Sequence[str]) -> None:
        pass


class _AtOnce(ResizeExecutor):
    """ResizeExecutor without threads."""

    async def _in_thread(self, work, *arguments):  # type: ignore[no-untyped-def]
        return work(*arguments)


class _Told(ProcessWatcher):
    """In place of pid files: the NodeManager reports its processes."""

    def __init__(self) -> None:
        super().__init__((), 1.0, lambda container_id: None)
        self.watched: set[str] = set()

    def watch(self, container_id: str, app_id: str, sent_s: float = 0.0) -> None:
        """Watch for a container's end."""
        self.watched.add(container_id)

    def unwatch(self, container_id: str) -> None:
        """Forget a container."""
        self.watched.discard(container_id)


class _Client(asyncio.Protocol):
    """The application master's socket; the NodeManager is reached at once."""

    def __init__(self, acceptor: Acceptor, reach: Callable[[Connection], None]) -> None:
        self._acceptor, self._reach = acceptor, reach

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        connection = self._acceptor.admit(str(Address(*peer[:2])))
        if connection is None:
            cast(asyncio.Transport, transport).abort()
            return
        self._reach(connection)
        client = connection.client
        cast(asyncio.Transport, transport).set_protocol(client)
        client.connection_made(transport)


class EmulatedSite:
    """One node with its sidecar. `client()` is what application masters connect to."""

    def __init__(
        self, node_id: str, capacity: Resources, nm_vcores: float, processes: Processes, wiring: Wiring
    ) -> None:
        """Prepare. capacity: what containers may use; nm_vcores: what the NodeManager believes to have."""
        self.id, self._capacity, self._wiring = node_id, capacity, wiring
        settings, policies = wiring.settings, wiring.policies
        shrinking = policies.node.shrinking()
        rules = settings.rules(capacity, shrinking.extra if shrinking else None, nm_vcores)
        sharing = Sharing(shrinking, rules)
        steady = policies.node.order_steady
        self.node = SidecarNode(
            rules,
            NodePolicies(
                policies.node.order_key,
                self._victims,
                policies.node.bypass_limit_s,
                steady,
                self._grace,
                waits_by_size=lambda: policies.node.waits_by_size,
                fills=lambda: policies.node.fills,
                fill=policies.node.fill,
            ),
            sharing,
        )
        queue = EventQueue()
        self._processes = processes
        self.gates = GateRunner(self.node, settings, wiring.metrics, queue, self._connect)
        self.acceptor = Acceptor(self.gates, _PIPE)
        self._watcher = _Told()
        self._resizer = Slow(processes, capacity.vcores)
        resizing = None
        if shrinking is not None:
            resizing = _AtOnce(self._resizer, _Nobody(), wiring.metrics, queue.put)
        line = ProxyLine(wiring.proxy, settings.report_timeout_s, wiring.traffic)
        reporter = Reporter(
            [line], settings, wiring.metrics, self.report, lambda ack: handle_ack(ack, self.node, queue)
        )
        self.dispatcher = Dispatcher(self.gates, self._watcher, reporter, resizing)
        self._rest = NodeRest(self._granted, self._drained, wiring.traffic)
        line.on_grants = self._rest.granted
        self._url = ""
        self._boot, self._reports = secrets.token_hex(8), 0
        self._tasks: list[asyncio.Task[None]] = []

    def _victims(self, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
        return self._wiring.policies.node.victims(need, running, now_s)

    def _grace(self) -> float:
        return self._wiring.policies.node.grace_s

    async def start(self, host: str, rest_port: int = 0) -> None:
        """Listen for the proxy at the node's host, and report from now on. Raises QuicksilverError."""
        self._url = await self._rest.start(host, rest_port)
        jobs = [("reports", self.dispatcher.reporter.run()), ("pings", self._pings())]
        if self.dispatcher.resizing is not None:
            jobs.append(("measure", self._measure(self.dispatcher.resizing)))
        self._tasks = [asyncio.create_task(job, name=f"{name} of {self.id}") for name, job in jobs]

    async def close(self) -> None:
        """End everything. Raises what ended a task before its time."""
        ended = [task for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.dispatcher.close()
        if self.dispatcher.resizing is not None:
            await self.dispatcher.resizing.close()
        await self.dispatcher.reporter.close()
        self._rest.close()
        for task in ended:
            task.result()

    def client(self) -> asyncio.Protocol:
        """Return the sidecar's side of a new connection of an application master."""
        return _Client(self.acceptor, self._join)

    def _join(self, connection: Connection) -> None:
        join(connection.upstream, self._processes.connected())

    async def _connect(self, connection: Connection) -> None:
        self._join(connection)

    # Reports of the NodeManager

    def began(self, container_id: str, vcores: float) -> None:
        """Handle the start of a container's process, which uses so many cores."""
        if self.dispatcher.resizing is not None:
            self._resizer.size(container_id, vcores)
            self.dispatcher.resizing.attach(container_id, Leader(0, time.time()))

    def ended(self, container_id: str) -> None:
        """Handle the end of a container's process."""
        if self.dispatcher.resizing is not None:
            self._resizer.over(container_id)
        if container_id in self._watcher.watched:
            self._watcher.unwatch(container_id)
            self._wiring.metrics.ends.labels("process").inc()
            self.dispatcher.put(Ended(container_id, time.time()))

    # Messages from and to the proxy

    def _granted(self, message: Grants) -> None:
        now_s = time.time()
        if message.grants:
            self.dispatcher.put(Granted(tuple(message.grants), now_s))
        if message.known:
            self.dispatcher.put(NowKnown(tuple(message.known), now_s))
        if message.drop:
            self.dispatcher.put(Dropped(tuple(message.drop), message.drop_reason, now_s))

    def _drained(self, message: Draining) -> None:
        self.dispatcher.put(Drain(message.on, message.reason or "draining", time.time()))

    def report(self, events: Sequence[ContainerEvent] = ()) -> Report:
        """Return the node's state for the proxy, with these events."""
        self._reports += 1
        report = Report(
            node_id=self.id,
            boot=self._boot,
            seq=self._reports,
            sidecar_url=self._url,
            memory_mb=self._capacity.memory_mb,
            vcores=int(self._capacity.vcores),
            events=list(events),
        )
        return fill_report(report, self.node, time.time())

    # Timers

    async def _pings(self) -> None:
        while True:
            await asyncio.sleep(self._wiring.settings.ping_s)
            self.gates.ping()

    async def _measure(self, resizing: ResizeExecutor) -> None:
        while True:
            resizing.measure()
            shrinking, every_s = self.node.state.sharing.shrinking, self._wiring.settings.measure_s
            await asyncio.sleep(every_s if shrinking is None else min(every_s, shrinking.quantum_s / _MOMENTS))
