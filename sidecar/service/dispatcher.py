"""Runs one node machine with its gates in one loop: events in, commands to the handlers, a timer for its deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from sidecar.connections.event_queue import NodeEvent
from sidecar.connections.gate_runner import GateRunner
from sidecar.node.container import FOREIGN, GUARANTEED, QUEUEABLE
from sidecar.node.events import Tick
from sidecar.service.node_commands import NodeCommands
from sidecar.service.node_journal import NodeJournal
from sidecar.service.processes.process_watch import ProcessWatcher
from sidecar.service.reporter import Reporter
from sidecar.service.resizing.resize_executor import ResizeExecutor

_TIMER_S: Final = 0.01
"""A timer that fires nearly at the right time is left alone."""


class Dispatcher:
    """Handles the events of one queue until it is closed.

    resizing: executes resizes; None where nothing is ever resized. journal: None without a directory for it.
    node_id: returns YARN's name of this node.
    """

    def __init__(
        self,
        gates: GateRunner,
        watcher: ProcessWatcher,
        reporter: Reporter,
        resizing: ResizeExecutor | None = None,
        journal: NodeJournal | None = None,
        node_id: Callable[[], str] = lambda: "",
    ) -> None:
        self.gates, self.node, self.settings, self.metrics = gates, gates.node, gates.settings, gates.metrics
        self.watcher, self.reporter, self.resizing, self.journal = watcher, reporter, resizing, journal
        self.commands = NodeCommands(gates, watcher, reporter, resizing, node_id)
        self.put = gates.queue.put
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        """When the timer fires, in the loop's time."""
        gates.queue.start(self._handle, gates.handle, self._set_timer)

    def _handle(self, event: NodeEvent) -> None:
        commands = self.node.handle(event)
        changed = self.node.state.take_changed()
        if self.journal is not None:
            self.journal.write_changes(changed, commands)
        handlers = self.commands.handlers
        for command in commands:
            handlers[type(command)](command)

    def _set_timer(self) -> None:
        deadline_s = self.node.deadline_s()
        if deadline_s is None or self.gates.stopping:
            self._cancel_timer()
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + max(0.001, deadline_s - time.time())
        if self._timer is None or abs(at_s - self._timer_s) > _TIMER_S:
            self._cancel_timer()
            self._timer, self._timer_s = loop.call_at(at_s, self._tick), at_s

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        if self.resizing is not None:
            self.resizing.measure()  # decisions need the CPU time that was given until now
        self.put(Tick(time.time()))

    def set_gauges(self) -> None:
        """Set the gauges to the present state."""
        node, metrics, gates = self.node, self.metrics, self.gates
        metrics.connections.set(gates.clients())
        metrics.sessions.set(len(gates.sessions.orphans()))
        metrics.journal_failures.set(self.journal.failures if self.journal is not None else 0)
        metrics.queue_length.set(len(node.state.queue))
        metrics.queue_bytes.set(node.state.queue.bytes)
        for kind in (GUARANTEED, QUEUEABLE, FOREIGN):
            metrics.running.labels(kind).set(sum(1 for e in node.state.using() if e.kind == kind))
        metrics.set_targets(node.state.targets)
        metrics.shrunk.set(len(self.resizing.small()) if self.resizing else 0)
        metrics.attained_sd_s.set(node.state.sharing.spread_s())
        metrics.free_physical_mb.set(node.state.free_physical_mb or 0)
        metrics.set_use(node.state.rules.capacity, node.state.used(GUARANTEED), node.state.used(QUEUEABLE, FOREIGN))

    async def close(self) -> None:
        """Close all connections and end all tasks."""
        self.gates.stopping = True
        self._cancel_timer()
        await self.gates.close()
