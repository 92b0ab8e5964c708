"""Executes the commands of the gates: bytes go to the sockets, events to the node machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from quicksilver.common.process.logs import get_logger
from sidecar.connections.connection import Connection
from sidecar.connections.event_queue import EventQueue
from sidecar.connections.nm_calls import NmCalls
from sidecar.connections.sessions import Sessions
from sidecar.gate.events import (
    Again,
    CloseClient,
    CloseUpstream,
    ForceWanted,
    Garbage,
    GateCommand,
    GateDecided,
    HoldFailed,
    LoggedIn,
    OwnAnswer,
    PassesThrough,
    StartAnswered,
    StartEarly,
    StartWanted,
    StartWithdrawn,
    StopWanted,
    ToClient,
    ToUpstream,
)
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Answered, Arrived, Dropped, Forced, SessionUp, StopAsked, Withdrawn

log = get_logger(__name__)
_EARLY_S: Final = 1.0


class GateCommands:
    """One handler for each type of command."""

    def __init__(self, sessions: Sessions, nm_calls: NmCalls, queue: EventQueue, metrics: SidecarMetrics) -> None:
        self._sessions, self._nm_calls, self._queue, self._metrics = sessions, nm_calls, queue, metrics
        self._undecided: dict[str, list[Connection]] = {}
        """Container to the connections whose start of it the node machine has not decided."""
        self.encrypted_s = 0.0
        """When an encrypted connection last passed unread; 0 never."""
        self.handlers: Final[dict[type[GateCommand], Callable[[Connection, Any], None]]] = {
            ToClient: self._to_client,
            ToUpstream: self._to_upstream,
            CloseClient: self._close_client,
            CloseUpstream: self._close_upstream,
            StartWanted: self._start_wanted,
            StartWithdrawn: self._start_withdrawn,
            StartEarly: self._start_early,
            StartAnswered: self._start_answered,
            StopWanted: self._stop_wanted,
            ForceWanted: self._force_wanted,
            HoldFailed: self._hold_failed,
            OwnAnswer: self._own_answer,
            LoggedIn: self._logged_in,
            PassesThrough: self._passes_through,
            Garbage: self._garbage,
        }

    def decide(self, container_id: str, hold: bool) -> None:
        """Send the node machine's decision about a start to the gates that wait for it."""
        for connection in self._undecided.pop(container_id, ()):
            self._queue.put_gate(connection, GateDecided(container_id, hold))

    # Sockets

    def _to_client(self, connection: Connection, command: ToClient) -> None:
        transport = connection.client.transport
        if transport is not None:
            transport.write(command.data)

    def _to_upstream(self, connection: Connection, command: ToUpstream) -> None:
        transport = connection.upstream.transport
        if transport is not None:
            transport.write(command.data)

    def _close_client(self, connection: Connection, command: CloseClient) -> None:
        connection.client.close()

    def _close_upstream(self, connection: Connection, command: CloseUpstream) -> None:
        connection.upstream.close()

    # Starts and stops

    def _start_wanted(self, connection: Connection, command: StartWanted) -> None:
        self._undecided.setdefault(command.start.container_id, []).append(connection)
        self._queue.put(Arrived(command.start, time.time()))

    def _start_withdrawn(self, connection: Connection, command: StartWithdrawn) -> None:
        waiting = self._undecided.get(command.container_id, [])
        if connection in waiting:
            waiting.remove(connection)
        if not waiting:
            self._undecided.pop(command.container_id, None)
            self._queue.put(Withdrawn(command.container_id, time.time()))

    def _start_early(self, connection: Connection, command: StartEarly) -> None:
        again = Again(command.container_id)
        asyncio.get_running_loop().call_later(_EARLY_S, self._queue.put_gate, connection, again)

    def _start_answered(self, connection: Connection, command: StartAnswered) -> None:
        self._queue.put(Answered(command.container_id, command.outcome, command.text, time.time()))

    def _stop_wanted(self, connection: Connection, command: StopWanted) -> None:
        self._queue.put(StopAsked(command.container_id, time.time()))

    def _force_wanted(self, connection: Connection, command: ForceWanted) -> None:
        self._queue.put(Forced(command.container_id, time.time()))

    def _hold_failed(self, connection: Connection, command: HoldFailed) -> None:
        self._queue.put(Dropped((command.container_id,), command.text, time.time()))

    def _own_answer(self, connection: Connection, command: OwnAnswer) -> None:
        for event in self._nm_calls.answered(connection, command, time.time()):
            self._queue.put(event)

    # The connection itself

    def _logged_in(self, connection: Connection, command: LoggedIn) -> None:
        self._sessions.add(command.attempt_id, connection)
        self._queue.put(SessionUp(command.attempt_id, time.time()))

    def _passes_through(self, connection: Connection, command: PassesThrough) -> None:
        if command.encrypted:
            self._metrics.encrypted_connections.inc()
            self.encrypted_s = time.time()
            text = "its containers pass unread: let this port speak authentication (docs/security.md)"
            log.warning(text, peer=connection.peer, why=command.reason)
        else:
            log.info("a connection passes unread", peer=connection.peer, why=command.reason)

    def _garbage(self, connection: Connection, command: Garbage) -> None:
        self._metrics.protocol_errors.labels(command.side).inc()
        log.warning(f"connection closed: the {command.side} broke the protocol", peer=connection.peer, why=command.text)
