"""One emulated node: a stock NodeManager's machines, with timers in place of processes and a link to the RM."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from hadoop_rpc.errors import HadoopRpcError, RemoteProtocolError
from hadoop_rpc.protos.yarn_server_pb2 import NodeHeartbeatResponseProto, RegisterNodeManagerResponseProto
from quicksilver_apps.yarn.yarn_client import RemoteCallError
from quicksilver_lab.bench.emulator.model import Umbilical
from quicksilver_lab.bench.emulator.nodes import nm
from quicksilver_lab.bench.emulator.nodes import nm_events as ev
from quicksilver_lab.bench.emulator.nodes.container_service import ContainerService
from quicksilver_lab.bench.emulator.nodes.node_server import NodeSession
from quicksilver_lab.bench.emulator.nodes.rm_link import Answered
from quicksilver_lab.bench.emulator.nodes.tally import NodeTally
from quicksilver_lab.bench.emulator.nodes.tracker import HEARTBEAT, REGISTER, ReportRelay, Tracker

_HTTP_PORT: Final = 8042
_LEAST_RATE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class NodeDelays:
    """How long a NodeManager takes. Defaults are of the local cluster (DefaultContainerExecutor, one idle machine)."""

    launch_s: float = 0.1
    """From a start that has room to its process: dispatchers, localisation of nothing, launch script, fork."""
    kill_s: float = 0.25
    """From a kill to the end of the process (yarn.nodemanager.sleep-delay-before-sigkill.ms)."""
    exit_s: float = 0.0
    """From the end of a process to when its NodeManager knows; a sidecar knows at once."""


class Link(Protocol):
    """The way to the ResourceManager."""

    def call(self, method: str, request: bytes, answered: Answered) -> None:
        """Send a call; `answered` gets its answer."""


class Observer(Protocol):
    """The listener for begins and ends of processes: a sidecar's site."""

    def began(self, container_id: str, vcores: float) -> None:
        """Handle the start of a container's process."""

    def ended(self, container_id: str) -> None:
        """Handle its end, whatever the reason."""


@dataclass(slots=True)
class _Process:
    """A process: a timer that may be slowed."""

    vcores: int
    left_s: float
    """At full speed, at `since_s`."""
    since_s: float
    rate: float = 1.0
    served_s: float = 0.0
    timer: asyncio.TimerHandle | None = None


class EmulatedNode:
    """One node, `host:port`. `start` makes it known to the ResourceManager, and it beats from then on."""

    def __init__(
        self,
        node_id: str,
        machine: nm.NodeManager,
        delays: NodeDelays,
        link: Link,
        tally: NodeTally,
        umbilical: Umbilical,
        relay: ReportRelay | None = None,
        slow_times: float = 1.0,
    ) -> None:
        """Prepare. machine: an idle NodeManager. umbilical: called for processes that begin or end by themselves."""
        self.id, self.machine = node_id, machine
        self.tracker = Tracker(node_id, machine, _HTTP_PORT, relay)
        self._service = ContainerService(machine, self.tracker, self.tell, tally)
        self.umbilical = umbilical
        self.observer: Observer | None = None
        self.slow_times = slow_times
        """Factor on the duration of processes here."""
        self.sessions: set[NodeSession] = set()
        self.failure: Exception | None = None
        """Why it does not beat any more."""
        self._loop = asyncio.get_running_loop()
        self._delays, self._link, self._tally = delays, link, tally
        self._processes: dict[str, _Process] = {}
        self._beat_timer: asyncio.TimerHandle | None = None
        self._interval_s = 1.0
        self._beat_s = 0.0
        self._beating = self._due = self._stopped = False

    # The ResourceManager

    async def start(self, first_beat_s: float = 0.0) -> None:
        """Register; the first heartbeat follows after so many seconds.

        Raises TurnedAwayError, RemoteCallError, OSError.
        """
        answer = await self._register()
        self.tracker.registered(answer)
        self._beat_in(first_beat_s)

    async def _register(self) -> RegisterNodeManagerResponseProto:
        waiting: asyncio.Future[bytes] = self._loop.create_future()

        def answered(answer: bytes | Exception) -> None:
            if waiting.done():
                return
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)

        self._link.call(REGISTER, self.tracker.register().SerializeToString(), answered)
        return RegisterNodeManagerResponseProto.FromString(await waiting)

    def stop(self) -> None:
        """Beat no more, and end every process and session; the ResourceManager is not informed."""
        self._stopped = True
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        for process in self._processes.values():
            if process.timer is not None:
                process.timer.cancel()
        for session in list(self.sessions):
            session.close()

    def _beat_in(self, seconds: float) -> None:
        if not self._stopped:
            self._beat_timer = self._loop.call_later(seconds, self._beat)

    def _beat_now(self) -> None:
        """Beat out of turn, as at the end of each container; lost when one is under way, as in the NodeManager."""
        if self._beating:
            self._tally.late_ends += 1
        elif not self._due and not self._stopped and self._beat_timer is not None:
            self._due = True
            self._beat_timer.cancel()
            self._loop.call_soon(self._beat)  # ends of the same turn go along

    def _beat(self) -> None:
        self._due = False
        if not self._stopped:
            self._beating = True
            self._tally.heartbeats += 1
            self._beat_s = time.monotonic()
            self._link.call(HEARTBEAT, self.tracker.heartbeat(), self._beaten)

    def _beaten(self, answer: bytes | Exception) -> None:
        self._beating = False
        self._tally.answer_s += time.monotonic() - self._beat_s
        if self._stopped:
            return
        if isinstance(answer, RemoteCallError):
            self._tally.missed += 1
            self.tracker.missed()
            self._beat_in(self._interval_s)
            return
        try:
            if isinstance(answer, Exception):
                raise answer
            reply = self.tracker.answered(NodeHeartbeatResponseProto.FromString(answer), time.monotonic())
        except (OSError, RemoteProtocolError, DecodeError) as error:  # Nodes.check tells
            self.failure, self._stopped = error, True
            return
        self._interval_s = reply.interval_s
        self._beat_in(reply.interval_s)
        for event in reply.events:
            self.tell(event)
        if reply.resync:
            self._resync()

    def _resync(self) -> None:
        assert self._beat_timer is not None
        self._beat_timer.cancel()
        self._beating = True  # no heartbeat before it is known again

        def answered(answer: bytes | Exception) -> None:
            self._beating = False
            try:
                if isinstance(answer, Exception):
                    raise answer
                self.tracker.registered(RegisterNodeManagerResponseProto.FromString(answer))
                self._beat_in(0.0)
            except (OSError, HadoopRpcError, DecodeError) as error:
                self.failure, self._stopped = error, True

        self._link.call(REGISTER, self.tracker.register().SerializeToString(), answered)

    # Containers

    def tell(self, event: ev.Event) -> None:
        """Pass an event to the NodeManager, and execute its commands."""
        for command in self.machine.handle(event):
            self._obey(command)

    def _obey(self, command: ev.Command) -> None:
        match command:
            case ev.NmLaunch(name):
                self._later(self._delays.launch_s, ev.Launched, name)
            case ev.RunProcess(name, seconds):
                self._run(name, seconds)
            case ev.NmKill(name):
                self._later(self._delays.kill_s, ev.NmKillOver, name)
            case ev.Done(name):
                self._gone(name)
                self._beat_now()

    def _later(self, seconds: float, event: Callable[[str, float], ev.Event], name: str) -> None:
        def due() -> None:
            if not self._stopped:
                self.tell(event(name, time.monotonic()))

        self._loop.call_later(seconds, due)

    def _run(self, name: str, asked_s: float) -> None:
        now_s, seconds = time.monotonic(), asked_s * self.slow_times
        process = _Process(self.machine.containers[name].spec.size.vcores, seconds, now_s)
        self._processes[name] = process
        self._tally.processes += 1
        self._tally.used_vcores += process.vcores
        process.timer = self._loop.call_later(seconds, self._exited, name)
        self.umbilical(name, "began", now_s)
        if self.observer is not None:
            self.observer.began(name, process.vcores)

    def _exited(self, name: str) -> None:
        now_s = time.monotonic()
        container = self.machine.containers[name]
        if container.phase is nm.NmPhase.RUNNING and container.spec.exit_status == ev.SUCCESS:
            self.umbilical(name, "done", now_s)
        if self._delays.exit_s:
            self._gone(name)
            self._later(self._delays.exit_s, ev.Exited, name)
        else:
            self.tell(ev.Exited(name, now_s))

    def _gone(self, name: str) -> None:
        """Handle the end of a process, possibly before its NodeManager knows."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        if process.timer is not None:
            process.timer.cancel()
        self._tally.processes -= 1
        self._tally.used_vcores -= process.vcores
        if self.observer is not None:
            self.observer.ended(name)

    # What a sidecar's site needs (quicksilver_lab.bench.emulator.site.Processes)

    def connected(self) -> asyncio.Protocol:
        """Return the NodeManager's side of a new connection."""
        return NodeSession(self._service, self.sessions)

    def speed(self, container_id: str, ratio: float) -> None:
        """Have a container's process run at so much of its full speed from now on; unknown ones are over."""
        process = self._processes.get(container_id)
        if process is None or process.rate == ratio:
            return
        now_s = time.monotonic()
        done_s = (now_s - process.since_s) * process.rate
        process.left_s -= done_s
        process.served_s += done_s
        process.since_s, process.rate = now_s, ratio
        if process.timer is not None:
            process.timer.cancel()
        process.timer = None
        if ratio > _LEAST_RATE:
            process.timer = self._loop.call_later(max(0.0, process.left_s) / ratio, self._exited, container_id)

    def served_s(self, container_id: str) -> float | None:
        """Return the seconds at full speed that a container's process has had; None when there is none."""
        process = self._processes.get(container_id)
        if process is None:
            return None
        return process.served_s + (time.monotonic() - process.since_s) * process.rate
