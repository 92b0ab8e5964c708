"""The two sockets of a gate: bytes become events, commands become bytes; no side is read faster than its peer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process.socket_pair import PairedSocket
from sidecar.gate.events import ClientClosed, FromClient, FromUpstream, GateEvent, UpstreamClosed
from sidecar.gate.gate import Gate

MAX_KEPT_BYTES: Final = 32 * 2**20
"""A client whose undecided calls are larger than this is not read until they are decided."""
_UNDECIDED: Final = "its undecided calls are too large"


class Connection:
    """One gate with its two sockets; `put(connection, event)` adds an event to the queue of the gates."""

    def __init__(self, gate: Gate, put: Callable[[Connection, GateEvent], None], buffer_bytes: int) -> None:
        self.gate, self.put = gate, put
        self.peer = ""
        self.client = ClientSide(self, buffer_bytes)
        self.upstream = UpstreamSide(self, buffer_bytes)
        self.client.pair_with(self.upstream)
        self.handshake_timer: asyncio.TimerHandle | None = None
        self.early: socket.socket | None = None
        """The client's, until the NodeManager is reached and it is read."""
        self.lost = False
        """Whether the session with the NodeManager has ended."""
        self.on_connected: Callable[[Connection], None] = lambda connection: None
        """Called when both sockets are there, before the client is read."""

    @property
    def usable(self) -> bool:
        """Whether a call can be sent to the NodeManager: its side is open, and nobody has begun to close it."""
        return self.gate.upstream_open and not self.upstream.is_closing

    @property
    def is_orphan(self) -> bool:
        """Whether this is a session that outlived its client."""
        return not self.gate.client_open and self.usable

    def limit_client(self) -> None:
        """Read the client only while the stored bytes of its undecided calls are within the limit."""
        if self.gate.kept_bytes > MAX_KEPT_BYTES:
            self.client.hold(_UNDECIDED)
        else:
            self.client.release(_UNDECIDED)

    def cancel_handshake_timer(self) -> None:
        """Stop waiting for the client's handshake."""
        if self.handshake_timer is not None:
            self.handshake_timer.cancel()
            self.handshake_timer = None

    def close(self) -> None:
        """Close both sockets after unsent bytes are sent."""
        self.cancel_handshake_timer()
        if self.early is not None:
            self.early.close()
        self.client.close()
        self.upstream.close()

    def abort(self) -> None:
        """Close both sockets without waiting for unsent bytes."""
        if self.early is not None:
            self.early.close()
            self.early = None
        self.client.abort()
        self.upstream.abort()


class ClientSide(PairedSocket):
    """The application master's socket, once the NodeManager is reached for it."""

    def __init__(self, connection: Connection, buffer_bytes: int) -> None:
        super().__init__(buffer_bytes)
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        super().connection_made(transport)
        self._connection.on_connected(self._connection)
        if not self._connection.gate.upstream_open:  # it was closed before there was a client
            transport.close()

    def data_received(self, data: bytes) -> None:  # noqa: D102
        connection = self._connection
        connection.put(connection, FromClient(data))
        if self.holds or connection.gate.kept_bytes > MAX_KEPT_BYTES:
            connection.limit_client()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self.resume_writing()  # nothing takes the NodeManager's bytes any more, but its end has to be read
        self._connection.put(self._connection, ClientClosed())


class UpstreamSide(PairedSocket):
    """The NodeManager's socket."""

    def __init__(self, connection: Connection, buffer_bytes: int) -> None:
        super().__init__(buffer_bytes)
        self._connection = connection

    def data_received(self, data: bytes) -> None:  # noqa: D102
        connection = self._connection
        connection.put(connection, FromUpstream(data))
        if connection.client.holds or connection.gate.kept_bytes > MAX_KEPT_BYTES:
            connection.limit_client()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._connection.put(self._connection, UpstreamClosed())


def connector(upstream: Address) -> Callable[[Connection], Awaitable[None]]:
    """Return the function that connects a connection's other side to the NodeManager; it raises OSError."""

    async def connect(connection: Connection) -> None:
        await asyncio.get_running_loop().create_connection(lambda: connection.upstream, *upstream)

    return connect
