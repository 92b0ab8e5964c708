"""The connections of application masters at one node: their gates, their sessions, and which of them stay open."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from quicksilver.common.process.background_tasks import BackgroundTasks
from sidecar.config import SidecarSettings
from sidecar.connections.connection import Connection
from sidecar.connections.event_queue import EventQueue
from sidecar.connections.gate_commands import GateCommands
from sidecar.connections.handshake_handover import HandshakeHandover, pass_on, taken
from sidecar.connections.nm_calls import NmCalls
from sidecar.connections.sessions import Sessions
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import GateEvent, Going, PingDue, UpstreamClosed
from sidecar.gate.gate import Gate
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import SessionLost
from sidecar.node.node import SidecarNode

_MB: Final = 2**20


class GateRunner:
    """Passes events to gates and executes their commands. `connect(connection)` opens its side to the NodeManager."""

    def __init__(
        self,
        node: SidecarNode,
        settings: SidecarSettings,
        metrics: SidecarMetrics,
        queue: EventQueue,
        connect: Callable[[Connection], Awaitable[None]],
    ) -> None:
        self.node, self.settings, self.metrics, self.queue, self.connect = node, settings, metrics, queue, connect
        self.connections: set[Connection] = set()
        self.sessions = Sessions()
        self.nm_calls = NmCalls(self.sessions, queue.put_gate)
        self.commands = GateCommands(self.sessions, self.nm_calls, queue, metrics)
        self.handshakes = HandshakeHandover()
        self.tasks = BackgroundTasks("a task of the sidecar failed")
        self.stopping = False
        self.services = ServicesMeta()
        self._handlers = self.commands.handlers

    def add(self, peer: str) -> Connection:
        """Return a new connection with a gate of its own."""
        gate = Gate(self.node.state, self.services, self.settings.max_frame_mb * _MB)
        connection = Connection(gate, self.queue.put_gate, self.settings.buffer_mb * _MB)
        connection.peer, connection.on_connected = peer, self.handshakes.begin
        self.connections.add(connection)
        return connection

    def clients(self) -> int:
        """Return how many application masters are connected."""
        return sum(1 for connection in self.connections if connection.gate.client_open)

    def handle(self, connection: Connection, event: GateEvent) -> None:
        """Pass an event to a connection's gate and execute its commands."""
        handlers = self._handlers
        for command in connection.gate.handle(event):
            handlers[type(command)](connection, command)
        if isinstance(event, UpstreamClosed):
            self._end_session(connection)
        if not self.stopping:
            self.handshakes.over(connection)  # when this process ends, the next one takes over unfinished handshakes
        if not connection.gate.client_open:
            self._close_unneeded(connection)

    def settle(self, container_id: str) -> None:
        """Inform the gates where calls wait for held starts that a container is settled."""
        for connection in self.connections:
            if connection.gate.waits_for_starts:
                self.queue.put_gate(connection, Going(container_id))

    def release(self, attempt_id: str) -> None:
        """Close the sessions that an attempt was kept for, where its client has gone."""
        for connection in self.sessions.all(attempt_id):
            if not connection.gate.client_open:
                self._close_unneeded(connection)

    def ping(self) -> None:
        """Ping every session that outlived its client."""
        for connection in self.sessions.orphans():
            self.queue.put_gate(connection, PingDue())

    def take_over_handshakes(self) -> None:
        """Pass on the connections that were in the middle of their handshake when the process before ended."""
        for name, client, upstream in taken():
            self.tasks.spawn(pass_on(name, client, upstream))

    async def close(self) -> None:
        """Close all connections and end all tasks."""
        self.stopping = True
        await self.tasks.cancel()
        for connection in list(self.connections):
            connection.close()

    def _close_unneeded(self, connection: Connection) -> None:
        """Close the NodeManager's side of an unneeded connection without a client; forget closed connections."""
        gate = connection.gate
        connection.cancel_handshake_timer()
        if gate.upstream_open and not gate.busy and not self._is_needed(connection):
            connection.upstream.close()
        if not gate.upstream_open:
            self.connections.discard(connection)

    def _is_needed(self, connection: Connection) -> bool:
        attempt_id = connection.gate.attempt_id
        needed = self.node.state.needs_session(attempt_id) and not self.sessions.has_other_orphan(connection)
        return bool(attempt_id) and needed

    def _end_session(self, connection: Connection) -> None:
        if connection.lost:
            return
        connection.lost = True
        if self.sessions.remove(connection):
            self.queue.put(SessionLost(connection.gate.attempt_id, time.time()))
