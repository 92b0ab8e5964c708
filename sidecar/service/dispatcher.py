"""Obeys the machines: their commands become bytes, timers and calls, and what comes of it goes back as events."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from hadoop_rpc.connection import Failure, Response
from policies.model import Way
from quicksilver.common.address import Address
from quicksilver.common.messages import Ack, EventKind
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger
from sidecar.config import SidecarSettings
from sidecar.connections.connection import Link, UpstreamSide
from sidecar.connections.container_kill import stop_and_see_gone
from sidecar.connections.handshake_handover import Handshakes, pass_on, taken
from sidecar.connections.nm_calls import OwnCalls
from sidecar.connections.sessions import Sessions
from sidecar.cpu_sharing.events import Freeze, LasCommand, Resized, Restore, Shrink, Story
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import (
    Again,
    CloseClient,
    CloseUpstream,
    Decided,
    ForceWanted,
    Garbage,
    GateCommand,
    GateEvent,
    Going,
    HoldFailed,
    LoggedIn,
    OwnAnswer,
    PassesThrough,
    PingDue,
    StartAnswered,
    StartEarly,
    StartWanted,
    StartWithdrawn,
    StopWanted,
    ToClient,
    ToUpstream,
    UpstreamClosed,
)
from sidecar.metrics import SidecarMetrics
from sidecar.node.container import FOREIGN, GUARANTEED, QUEUEABLE
from sidecar.node.events import (
    Answered,
    Arrived,
    Command,
    Drain,
    Dropped,
    Ended,
    Event,
    Forced,
    Forward,
    Hold,
    Kill,
    KillOver,
    Launch,
    LetGo,
    Outcome,
    Released,
    SessionLost,
    SessionUp,
    Settled,
    StopAsked,
    Targeted,
    Tell,
    Tick,
    Unwatch,
    Warn,
    Watch,
    Withdrawn,
)
from sidecar.node.journal_records import acked_line, event_line, line_of, served_line
from sidecar.node.node import Node
from sidecar.node.recovery import Restored
from sidecar.resizer.base import Leader
from sidecar.service.journal_file import Journal
from sidecar.service.process_watch import Watcher
from sidecar.service.reporter import Reporter
from sidecar.service.resize_executor import Resizing

log = get_logger(__name__)
_seldom = Seldom()
_MB: Final = 2**20
_GONE_S: Final = 10.0
_EARLY_S: Final = 1.0
Answer = Response | Failure | None


class Runtime:
    """Runs one node machine and its gates in one loop. `reporter` and `watcher` are set before the first event."""

    reporter: Reporter
    watcher: Watcher
    resizing: Resizing | None = None
    """Carries out resizes; None where nothing is ever resized."""
    journal: Journal | None = None
    """Keeps what the next life has to know; None where there is no place for it."""

    def __init__(self, node: Node, settings: SidecarSettings, metrics: SidecarMetrics, upstream: Address) -> None:
        self.node, self.settings, self.metrics, self.upstream = node, settings, metrics, upstream
        self.meta = ServicesMeta()
        self.sessions = Sessions()
        self.links: set[Link] = set()
        self.gone: OrderedDict[str, float] = OrderedDict()
        """Containers that are over, with the time, for those who read older news."""
        self.encrypted_s = 0.0
        """When an encrypted connection last passed unread; 0 never."""
        self.stopping = False
        self._inbox: deque[Event | Restored | tuple[Link, GateEvent]] = deque()
        self._stories: dict[str, Story] = {}
        self._draining = False
        self._waiters: dict[str, list[Link]] = {}
        self.handshakes = Handshakes()
        self._own = OwnCalls(self.sessions, self.tell_gate)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    # Ways in

    def tell(self, event: Event | Restored) -> None:
        """Hand an event to the node machine and carry out what follows."""
        self._inbox.append(event)
        self._work()

    def tell_gate(self, link: Link, event: GateEvent) -> None:
        """Hand an event to a gate and carry out what follows."""
        self._inbox.append((link, event))
        self._work()

    def take_over_handshakes(self) -> None:
        """Pass on what was in the middle of its handshake when the life before died."""
        for name, client, upstream in taken():
            self.spawn(pass_on(name, client, upstream))

    def ping(self) -> None:
        """Ping every kept session."""
        for link in self.sessions.kept():
            self.tell_gate(link, PingDue())

    async def close(self) -> None:
        """Close all connections and end all tasks."""
        self.stopping = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in list(self.links):
            if link.handshake_timer is not None:
                link.handshake_timer.cancel()
            if link.early is not None:
                link.early.close()
            for transport in (link.client, link.upstream):
                if transport is not None:
                    transport.close()

    def _work(self) -> None:
        """Carry out everything that is to do, in order; a machine never runs inside another's turn."""
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox:
                item = self._inbox.popleft()
                if isinstance(item, tuple):
                    self._run_gate(*item)
                else:
                    commands = self.node.handle(item)
                    self._keep(commands)
                    for command in commands:
                        self._obey(command)
        finally:
            self._draining = False
        self._arm()

    def _keep(self, commands: Sequence[Command]) -> None:
        """Write what changed into the journal, before anything leaves that rests on it."""
        changed = self.node.take_changed()
        if self.journal is None:
            return
        lines = [line_of(self.node, container_id) for container_id in changed]
        lines += [event_line(command.event) for command in commands if isinstance(command, Tell)]
        self.journal.write(lines)

    def keep_stories(self) -> None:
        """Write into the journal what running containers have attained since it was told last."""
        shares = self.node.sharing.shares()
        stories = {container_id: share.story() for container_id, share in shares.items() if share.resizable}
        news = {
            container_id: story for container_id, story in stories.items() if self._stories.get(container_id) != story
        }
        self._stories = stories
        if self.journal is not None and news:
            self.journal.write([served_line(news)])

    def acknowledged(self, seq: int) -> None:
        """Take in that the proxy has the events up to a number."""
        if self.journal is not None:
            self.journal.write([acked_line(seq)])

    def told(self, ack: Ack) -> None:
        """Take in what the proxy answered to a report."""
        now_s = time.time()
        if ack.drain is not None and ack.drain != self.node.drains.get("yarn", ""):
            self.tell(Drain(bool(ack.drain), ack.drain, now_s, "yarn"))
            self.reporter.changed()
        if ack.drop:
            self.tell(Dropped(tuple(ack.drop), ack.drop_reason, now_s))
        if ack.targets is not None or ack.shed or ack.promoted:
            self.tell(Targeted(ack.targets, tuple(ack.shed), tuple(ack.promoted), now_s))

    def _arm(self) -> None:
        deadline_s = self.node.deadline_s()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_s is not None and not self.stopping:
            delay_s = max(0.001, deadline_s - time.time())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        if self.resizing is not None:
            self.resizing.measure()  # what is decided now shall rest on what was given by now
        self.tell(Tick(time.time()))

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run something beside, until it ends or the sidecar does."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the sidecar failed", exc_info=task.exception())

    # Connections

    async def reach(self, link: Link) -> None:
        """Connect a link to the NodeManager. Raises OSError."""
        await asyncio.get_running_loop().create_connection(lambda: UpstreamSide(link), *self.upstream)

    def _run_gate(self, link: Link, event: GateEvent) -> None:
        for command in link.gate.handle(event):
            self._obey_gate(link, command)
        if isinstance(event, UpstreamClosed):
            self._lost(link)
        if not self.stopping:
            self.handshakes.over(link)  # at the end the next process takes what is not over
        self._tidy(link)

    def _tidy(self, link: Link) -> None:
        """Close the NodeManager's side of a link that nobody needs, and forget closed links."""
        gate = link.gate
        if gate.client_open:
            return
        if link.handshake_timer is not None:
            link.handshake_timer.cancel()
            link.handshake_timer = None
        needed = self.node.needs_session(gate.attempt_id) and not self.sessions.has_other_kept(link)
        if gate.upstream_open and not gate.busy and not (gate.attempt_id and needed) and link.upstream is not None:
            link.upstream.close()
        if not gate.upstream_open:
            self.links.discard(link)

    def _lost(self, link: Link) -> None:
        if link.lost:
            return
        link.lost = True
        self.meta.data = None
        if self.sessions.remove(link):
            self._inbox.append(SessionLost(link.gate.attempt_id, time.time()))

    # Commands of the gates

    def _obey_gate(self, link: Link, command: GateCommand) -> None:
        now_s = time.time()
        match command:
            case ToClient():
                if link.client is not None:
                    link.client.write(command.data)
            case ToUpstream():
                if link.upstream is not None:
                    link.upstream.write(command.data)
            case CloseClient():
                if link.client is not None:
                    link.client.close()
            case CloseUpstream():
                if link.upstream is not None:
                    link.upstream.close()
            case StartWanted():
                self._waiters.setdefault(command.start.container_id, []).append(link)
                self._inbox.append(Arrived(command.start, now_s))
            case StartWithdrawn():
                self._withdrawn(link, command.container_id, now_s)
            case StartEarly():
                again = Again(command.container_id)
                asyncio.get_running_loop().call_later(_EARLY_S, self.tell_gate, link, again)
            case StartAnswered():
                self._inbox.append(Answered(command.container_id, command.outcome, command.text, now_s))
            case StopWanted():
                self._inbox.append(StopAsked(command.container_id, now_s))
            case ForceWanted():
                self._inbox.append(Forced(command.container_id, now_s))
            case HoldFailed():
                self._inbox.append(Dropped((command.container_id,), command.text, now_s))
            case OwnAnswer():
                for event in self._own.answered(link, command, now_s):
                    self._inbox.append(event)
            case LoggedIn() | PassesThrough() | Garbage():
                self._note(link, command)

    def _note(self, link: Link, command: LoggedIn | PassesThrough | Garbage) -> None:
        match command:
            case LoggedIn():
                self.sessions.add(command.attempt_id, link)
                self._inbox.append(SessionUp(command.attempt_id, time.time()))
            case PassesThrough():
                if command.encrypted:
                    self.metrics.encrypted_connections.inc()
                    self.encrypted_s = time.time()
                    text = "its containers pass unread: let this port speak authentication (docs/security.md)"
                    log.warning(text, peer=link.peer, why=command.reason)
                else:
                    log.info("a connection passes unread", peer=link.peer, why=command.reason)
            case Garbage():
                self.metrics.protocol_errors.labels(command.side).inc()
                log.warning(
                    f"connection closed: the {command.side} broke the protocol", peer=link.peer, why=command.text
                )

    def _withdrawn(self, link: Link, container_id: str, now_s: float) -> None:
        waiters = self._waiters.get(container_id, [])
        if link in waiters:
            waiters.remove(link)
        if not waiters:
            self._waiters.pop(container_id, None)
            self._inbox.append(Withdrawn(container_id, now_s))

    # Commands of the node machine

    def _obey(self, command: Command) -> None:
        match command:
            case Forward() | Hold():
                hold = isinstance(command, Hold)
                self.metrics.starts.labels("held" if hold else "forwarded").inc()
                for link in self._waiters.pop(command.container_id, []):
                    self._inbox.append((link, Decided(command.container_id, hold)))
            case Launch():
                if not self._own.start(command):
                    text = "there is no session with the NodeManager"
                    self._inbox.append(Answered(command.container_id, Outcome.LOST, text, time.time()))
            case Kill():
                self.metrics.preemptions.labels(Way.KILL).inc()
                self.spawn(self._kill(command))
            case Settled():
                for link in self.links:
                    self._inbox.append((link, Going(command.container_id)))
            case Watch():
                self.watcher.watch(command.container_id, command.app_id)
            case Unwatch():
                self.watcher.unwatch(command.container_id)
                self._remember(command.container_id)
                if self.resizing is not None:
                    self.resizing.leave(command.container_id, over=True)
            case Shrink() | Freeze() | Restore() | LetGo():
                self._resize(command)
            case Released():
                for link in self.sessions.all(command.attempt_id):
                    self._tidy(link)
            case Tell():
                self._report(command)
            case Warn():
                log.warning(command.text, container=command.container_id)

    def _resize(self, command: LasCommand | LetGo) -> None:
        if self.resizing is None:
            if not isinstance(command, LetGo):
                self._inbox.append(Resized(command.container_id, "there is no resizer", time.time()))
            return
        if isinstance(command, LetGo):
            self.resizing.leave(command.container_id, over=False)
            return
        share = self.node.sharing.share(command.container_id)
        if share is not None and not share.running and not isinstance(command, Restore):
            self.metrics.preemptions.labels(share.way).inc()
            self.metrics.work_saved_s.inc(max(0.0, share.attained_s - share.saved_s))
        words = {} if isinstance(command, Restore) else {"by": command.by}
        log.info(type(command).__name__.lower(), container=command.container_id, why=command.why, **words)
        self.resizing.obey(command)

    async def _kill(self, command: Kill) -> None:
        begun_s = time.monotonic()

        async def call(method: str, body: bytes) -> Answer:
            return await self._own.call(command.attempt_id, method, body)

        settings = self.settings
        gone, text = await stop_and_see_gone(
            command.container_id,
            call,
            poll_s=settings.kill_poll_s,
            wait_s=settings.kill_wait_s,
            localizing_s=settings.kill_localizing_wait_s,
        )
        if gone:
            self.metrics.room_s.observe(time.monotonic() - begun_s)
        self.tell(KillOver(command.container_id, gone, text, time.time()))

    def _remember(self, container_id: str) -> None:
        now_s = time.time()
        self.gone[container_id] = now_s
        while self.gone and next(iter(self.gone.values())) < now_s - _GONE_S:
            self.gone.popitem(last=False)

    def _report(self, command: Tell) -> None:
        event = command.event
        self.metrics.events.labels(event.kind).inc()
        if event.kind is EventKind.SHED:
            self.metrics.sheds.labels(event.cause).inc()
        entry = self.node.entries.get(event.container_id)
        if event.kind is EventKind.STARTED and entry is not None and entry.kind == QUEUEABLE:
            self.metrics.queueing_s.observe(event.waited_s)
        details = {"waited_s": round(event.waited_s, 3), "why": event.reason}
        if event.ran_s is not None:
            details["ran_s"] = round(event.ran_s, 3)
        log.info(f"container {event.kind}", container=event.container_id, **{k: v for k, v in details.items() if v})
        self.reporter.add(event)

    def ended(self, container_id: str) -> None:
        """Take in that a container's process is gone."""
        self.metrics.ends.labels("process").inc()
        self.tell(Ended(container_id, time.time()))

    def found(self, container_id: str, pid: int, began_s: float) -> None:
        """Take in where a container's processes begin."""
        if self.resizing is not None:
            self.resizing.found(container_id, Leader(pid, began_s))

    def measure(self) -> None:
        """Set the gauges."""
        node, metrics = self.node, self.metrics
        metrics.connections.set(sum(1 for link in self.links if link.gate.client_open))
        metrics.sessions.set(len(self.sessions.kept()))
        metrics.journal_failures.set(self.journal.failures if self.journal is not None else 0)
        metrics.queue_length.set(len(node.queue))
        metrics.queue_bytes.set(node.queue.bytes)
        for kind in (GUARANTEED, QUEUEABLE, FOREIGN):
            metrics.running.labels(kind).set(sum(1 for e in node.using() if e.kind == kind))
        metrics.set_targets(node.targets)
        metrics.shrunk.set(len(self.resizing.small()) if self.resizing else 0)
        metrics.attained_sd_s.set(node.sharing.spread_s())
        metrics.free_physical_mb.set(node.free_physical_mb or 0)
        metrics.set_use(node.rules.capacity, node.used(GUARANTEED), node.used(QUEUEABLE, FOREIGN))
