"""Accepts connections of application masters; none is read before the NodeManager is reached for it.

Until then its bytes stay in the kernel. Where the NodeManager does not answer at once, the socket is also stored
(quicksilver/common/process/fdstore.py), so that the next process accepts it like a new one: bytes that were read and
not passed on would be lost with this process, and Hadoop's clients do not repeat a handshake (see
`sidecar.connections.handshake_handover`).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process import fdstore
from quicksilver.common.process.dial import dial
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.socket_pair import accepted
from sidecar.connections.connection import Connection
from sidecar.connections.gate_runner import GateRunner
from sidecar.connections.handshake_handover import forget
from sidecar.gate.events import ClientClosed, UpstreamClosed

log = get_logger(__name__)
_seldom = Seldom()
_PREFIX: Final = "sidecar-early-"
_GOING: Final = {7, 8}
"""TCP_CLOSE and TCP_CLOSE_WAIT (Linux, net/tcp_states.h), first byte of TCP_INFO: the peer has hung up."""


class Acceptor:
    """Accepts the connections of one node's gates. `upstream`: where the NodeManager listens, for log lines."""

    def __init__(self, gates: GateRunner, upstream: Address) -> None:
        self._gates, self._upstream = gates, upstream
        self._numbers = itertools.count()
        self._refused = False

    async def serve(self, listener: socket.socket) -> None:
        """Accept until cancelled; the listener is closed then."""
        async for sock in accepted(listener):
            self.enter(sock)

    def take_over(self) -> None:
        """Accept again the connections for which the process before had not reached the NodeManager."""
        for name in [name for name in fdstore.names() if name.startswith(_PREFIX)]:
            for sock in fdstore.take(name):
                self.enter(sock, name)

    def enter(self, sock: socket.socket, kept_as: str = "") -> None:
        """Accept a connection and dial the NodeManager for it. kept_as: the name of its stored socket, or ""."""
        try:
            connection = self.admit(str(Address(*sock.getpeername()[:2])))
        except OSError:
            connection = None  # it was reset before it was accepted
        if connection is None:
            sock.close()
            forget(kept_as)
            return
        connection.early = sock
        self._gates.tasks.spawn(self._connect(connection, sock, kept_as))

    def admit(self, peer: str) -> Connection | None:
        """Return a new connection with a gate of its own; None when there are too many."""
        gates, settings, metrics = self._gates, self._gates.settings, self._gates.metrics
        if gates.stopping or gates.clients() >= settings.max_connections:
            metrics.connections_refused.labels("limit").inc()
            _seldom.warning("connection closed: too many", peer=peer, limit=settings.max_connections)
            return None
        connection = gates.add(peer)
        metrics.connections_opened.inc()
        loop = asyncio.get_running_loop()
        connection.handshake_timer = loop.call_later(settings.handshake_timeout_s, self._handshake_late, connection)
        return connection

    async def _connect(self, connection: Connection, sock: socket.socket, kept_as: str) -> None:
        """Reach the NodeManager, then read the client."""
        gates, name = self._gates, kept_as

        def refused(error: OSError) -> None:
            nonlocal name
            self._nm_refused(error)
            name = name or self._keep(sock)

        try:
            timeout_s = gates.settings.connect_timeout_s
            is_connected = await dial(
                lambda: gates.connect(connection),
                timeout_s=timeout_s,
                refused=refused,
                has_client=lambda: connection.early is not None and not _hung_up(sock),
            )
            if is_connected and connection.early is not None:
                self._refused = False
                connection.early = None
                await asyncio.get_running_loop().connect_accepted_socket(lambda: connection.client, sock)
                return
        except OSError as error:
            gates.metrics.connections_refused.labels("upstream").inc()
            self._nm_refused(error)
        finally:
            if not gates.stopping:  # when this process ends, the next one takes over stored sockets
                forget(name)
        self._give_up(connection)

    def _give_up(self, connection: Connection) -> None:
        """Close a connection whose client was never read."""
        connection.abort()
        self._gates.queue.put_gate(connection, UpstreamClosed())
        self._gates.queue.put_gate(connection, ClientClosed())

    def _keep(self, sock: socket.socket) -> str:
        """Store a client's socket outside of this process; return its name there, "" where that is not possible."""
        name = f"{_PREFIX}{os.getpid()}-{next(self._numbers)}"
        try:
            return name if fdstore.store(name, sock) else ""
        except OSError as error:
            log.warning("a connection cannot be stored: it breaks if the sidecar ends now", why=str(error))
            return ""

    def _nm_refused(self, error: OSError) -> None:
        if not self._refused:
            log.warning("the NodeManager does not answer", upstream=str(self._upstream), why=str(error))
        self._refused = True

    def _handshake_late(self, connection: Connection) -> None:
        connection.handshake_timer = None
        if not connection.gate.opened and connection.gate.client_open:
            self._gates.metrics.connections_refused.labels("handshake").inc()
            _seldom.warning("connection closed: no handshake in time", peer=connection.peer)
            connection.abort()


def _hung_up(sock: socket.socket) -> bool:
    """Return whether a client that is not read has gone."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _GOING
    except OSError:
        return True
