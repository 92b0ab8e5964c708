"""Executes the commands of the node machine: one handler for each type of command."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from hadoop_rpc.connection import Failure, Response
from policies.model import Way
from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver.common.process.logs import debug_check, get_logger
from sidecar.connections.container_kill import see_gone, stop_and_see_gone
from sidecar.connections.gate_runner import GateRunner
from sidecar.cpu_sharing.events import Freeze, Resized, Restore, Shrink
from sidecar.node.container import QUEUEABLE, Container
from sidecar.node.events import (
    Answered,
    Command,
    Ended,
    Forward,
    Hold,
    Kill,
    KillOver,
    Launch,
    LetGo,
    Outcome,
    Released,
    ReportEvent,
    ReportSoon,
    Settled,
    Unwatch,
    Warn,
    Watch,
)
from sidecar.node.phases import Phase
from sidecar.service.processes.process_watch import ProcessWatcher
from sidecar.service.reporter import Reporter
from sidecar.service.resizing.resize_executor import ResizeExecutor
from sidecar.service.traces import trace_event

log = get_logger(__name__)
_is_debugging = debug_check(__name__)
_ROUTINE: Final = frozenset((EventKind.HELD, EventKind.STARTED, EventKind.ENDED))
"""Events of each container that ran as it should: their lines are of level debug."""
_ENDED_S: Final = 10.0
_SEEN_S: Final = 2.0
"""How long the NodeManager may take to notice that a process is gone."""


class NodeCommands:
    """Passes commands to the gates, the watcher of processes, the resizer and the reporter."""

    def __init__(
        self,
        gates: GateRunner,
        watcher: ProcessWatcher,
        reporter: Reporter,
        resizing: ResizeExecutor | None,
        node_id: Callable[[], str] = lambda: "",
    ) -> None:
        """Prepare. node_id: returns YARN's name of this node."""
        self._gates, self._node, self._metrics = gates, gates.node, gates.metrics
        self._watcher, self._reporter, self._resizing = watcher, reporter, resizing
        self._node_id = node_id
        self._forward_count = gates.metrics.starts.labels("forwarded")
        self._hold_count = gates.metrics.starts.labels("held")
        self._event_counts = {kind: gates.metrics.events.labels(kind) for kind in EventKind}
        self.ended: OrderedDict[str, float] = OrderedDict()
        """Containers that ended in the last seconds, with the time: a list of the NodeManager may be older."""
        self.handlers: Final[dict[type[Command], Callable[[Any], None]]] = {
            Forward: self._forward,
            Hold: self._hold,
            Launch: self._launch,
            Kill: self._kill,
            Settled: self._settled,
            Watch: self._watch,
            Unwatch: self._unwatch,
            Shrink: self._resize,
            Freeze: self._resize,
            Restore: self._resize,
            LetGo: self._let_go,
            Released: self._released,
            ReportEvent: self._report,
            ReportSoon: self._report_soon,
            Warn: self._warn,
        }

    # Starts and stops

    def _forward(self, command: Forward) -> None:
        self._forward_count.inc()
        self._gates.commands.decide(command.container_id, hold=False)

    def _hold(self, command: Hold) -> None:
        self._hold_count.inc()
        self._gates.commands.decide(command.container_id, hold=True)

    def _launch(self, command: Launch) -> None:
        if not self._gates.nm_calls.start(command):
            text = "there is no session with the NodeManager"
            self._gates.queue.put(Answered(command.container_id, Outcome.LOST, text, time.time()))

    def _kill(self, command: Kill) -> None:
        self._metrics.preemptions.labels(Way.KILL).inc()
        self._gates.tasks.spawn(self._stop_container(command))

    async def _stop_container(self, command: Kill) -> None:
        begun_s = time.monotonic()

        async def call(method: str, body: bytes) -> Response | Failure | None:
            return await self._gates.nm_calls.call(command.attempt_id, method, body)

        settings = self._gates.settings
        gone, text = await stop_and_see_gone(
            command.container_id,
            call,
            poll_s=settings.kill_poll_s,
            wait_s=settings.kill_wait_s,
            localizing_s=settings.kill_localizing_wait_s,
            localized=lambda: self._is_localized(command.container_id),
        )
        if gone:
            self._metrics.room_s.observe(time.monotonic() - begun_s)
        self._gates.queue.put(KillOver(command.container_id, gone, text, time.time()))

    def process_ended(self, container_id: str) -> None:
        """Handle that a container's process is gone.

        While a guaranteed start waits for room the NodeManager has to know of the end, too: it has no room for that
        start before, and would kill another queueable container.
        """
        container = self._node.state.containers.get(container_id)
        if container is not None and container.phase is Phase.RUNNING and self._node.guaranteed.waiting:
            self._gates.tasks.spawn(self._see_gone(container))
        else:
            self._gates.queue.put(Ended(container_id, time.time()))

    async def _see_gone(self, container: Container) -> None:
        async def call(method: str, body: bytes) -> Response | Failure | None:
            return await self._gates.nm_calls.call(container.start.attempt_id, method, body)

        try:
            await see_gone(container.id, call, poll_s=self._gates.settings.kill_poll_s, wait_s=_SEEN_S)
        finally:
            self._gates.queue.put(Ended(container.id, time.time()))

    def _is_localized(self, container_id: str) -> bool:
        container = self._node.state.containers.get(container_id)
        return container is not None and container.localized

    def _settled(self, command: Settled) -> None:
        self._gates.settle(command.container_id)

    def _released(self, command: Released) -> None:
        self._gates.release(command.attempt_id)

    # Processes

    def _watch(self, command: Watch) -> None:
        self._watcher.watch(command.container_id, command.app_id, command.sent_s)

    def _unwatch(self, command: Unwatch) -> None:
        self._watcher.unwatch(command.container_id)
        now_s = time.time()
        self.ended[command.container_id] = now_s
        while self.ended and next(iter(self.ended.values())) < now_s - _ENDED_S:
            self.ended.popitem(last=False)
        if self._resizing is not None:
            self._resizing.leave(command.container_id, over=True)

    def _resize(self, command: Shrink | Freeze | Restore) -> None:
        if self._resizing is None:
            self._gates.queue.put(Resized(command.container_id, "there is no resizer", time.time()))
            return
        share = self._node.state.sharing.share(command.container_id)
        if share is not None and not share.running and not isinstance(command, Restore):
            self._metrics.preemptions.labels(share.way).inc()
            if not share.for_kin:
                self._metrics.work_saved_s.inc(max(0.0, share.attained_s - share.saved_s))
        if _is_debugging():
            cause = {} if isinstance(command, Restore) else {"by": command.by}
            log.debug(type(command).__name__.lower(), container=command.container_id, why=command.why, **cause)
        self._resizing.execute(command)

    def _let_go(self, command: LetGo) -> None:
        if self._resizing is not None:
            self._resizing.leave(command.container_id, over=False)

    # Reports

    def _report_soon(self, _command: ReportSoon) -> None:
        self._reporter.changed()

    def _report(self, command: ReportEvent) -> None:
        event, metrics = command.event, self._metrics
        self._event_counts[event.kind].inc()
        if event.kind is EventKind.SHED:
            metrics.sheds.labels(event.cause).inc()
        entry = self._node.state.containers.get(event.container_id)
        if event.kind is EventKind.STARTED and entry is not None and entry.kind == QUEUEABLE:
            metrics.queueing_s.observe(event.waited_s)
        if event.kind not in _ROUTINE:
            log.info(f"container {event.kind}", container=event.container_id, **_details(event))
        elif _is_debugging():
            log.debug(f"container {event.kind}", container=event.container_id, **_details(event))
        trace_event(event, entry, self._node_id())
        self._reporter.add(event)

    def _warn(self, command: Warn) -> None:
        log.warning(command.text, container=command.container_id)


def _details(event: ContainerEvent) -> dict[str, object]:
    """Return the further keys of an event's line."""
    details = {"waited_s": round(event.waited_s, 3), "why": event.reason, "ran_s": round(event.ran_s or 0.0, 3)}
    return {key: value for key, value in details.items() if value}
