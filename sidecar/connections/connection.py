"""The two sockets of a gate: bytes in as events, commands out as bytes, and reading no faster than the peer takes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final, cast

from quicksilver.common.address import Address
from sidecar.gate.events import ClientClosed, FromClient, FromUpstream, GateEvent, UpstreamClosed
from sidecar.gate.gate import Gate

_KEPT_BYTES_MAX: Final = 32 * 2**20
"""A client whose undecided calls are larger than this is not read until they are decided."""


class Connection:
    """One gate with its sockets; `tell(connection, event)` hands an event to whoever runs the gates."""

    def __init__(self, gate: Gate, tell: Callable[[Connection, GateEvent], None], buffer_bytes: int) -> None:
        self.gate = gate
        self.peer = ""
        self.buffer_bytes = buffer_bytes
        self.client: asyncio.Transport | None = None
        self.upstream: asyncio.Transport | None = None
        self.handshake_timer: asyncio.TimerHandle | None = None
        self.early: socket.socket | None = None
        """The client's, until the NodeManager is reached and it is read."""
        self.lost = False
        """Whether the session was taken off the books."""
        self.on_connected: Callable[[Connection], None] = lambda connection: None
        """Called when both sockets are there, before the client is read."""
        self._tell = tell
        self._client_held: set[str] = set()
        self._upstream_held = False

    @property
    def usable(self) -> bool:
        """Whether a call can be sent to the NodeManager: its side is open, and nobody has begun to close it."""
        return self.gate.upstream_open and (self.upstream is None or not self.upstream.is_closing())

    @property
    def kept(self) -> bool:
        """Whether this is a session that outlived its client."""
        return not self.gate.client_open and self.usable

    def tell(self, event: GateEvent) -> None:
        """Hand an event of one of the sockets on."""
        self._tell(self, event)
        if self.gate.kept_bytes > _KEPT_BYTES_MAX:
            self.hold_client("kept")
        else:
            self.release_client("kept")

    def hold_client(self, why: str) -> None:
        """Stop reading the client."""
        if not self._client_held and self.client is not None and not self.client.is_closing():
            self.client.pause_reading()
        self._client_held.add(why)

    def release_client(self, why: str) -> None:
        """Read the client again, unless something else forbids it."""
        if why not in self._client_held:
            return
        self._client_held.discard(why)
        if not self._client_held and self.client is not None and not self.client.is_closing():
            self.client.resume_reading()

    def hold_upstream(self, hold: bool) -> None:
        """Stop reading the NodeManager, or read it again."""
        if hold == self._upstream_held or self.upstream is None or self.upstream.is_closing():
            return
        self._upstream_held = hold
        if hold:
            self.upstream.pause_reading()
        else:
            self.upstream.resume_reading()

    def cancel_handshake_timer(self) -> None:
        """Let the client be: its handshake is over, or nobody waits for it."""
        if self.handshake_timer is not None:
            self.handshake_timer.cancel()
            self.handshake_timer = None

    def close(self) -> None:
        """Close both sockets; what is unsent is still sent."""
        self.cancel_handshake_timer()
        if self.early is not None:
            self.early.close()
        for transport in (self.client, self.upstream):
            if transport is not None:
                transport.close()

    def abort(self) -> None:
        """Close both sockets without waiting for what is unsent."""
        if self.early is not None:
            self.early.close()
            self.early = None
        for transport in (self.client, self.upstream):
            if transport is not None:
                transport.abort()


class ClientSide(asyncio.Protocol):
    """The application master's socket, once the NodeManager is reached for it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        self._connection.client = tcp = cast(asyncio.Transport, transport)
        tcp.set_write_buffer_limits(high=self._connection.buffer_bytes)
        self._connection.on_connected(self._connection)
        if not self._connection.gate.upstream_open:  # it was closed before there was a client to be told
            tcp.close()

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._connection.tell(FromClient(data))

    def pause_writing(self) -> None:  # noqa: D102
        self._connection.hold_upstream(True)

    def resume_writing(self) -> None:  # noqa: D102
        self._connection.hold_upstream(False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._connection.hold_upstream(False)
        self._connection.tell(ClientClosed())


class UpstreamSide(asyncio.Protocol):
    """The NodeManager's socket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        tcp = cast(asyncio.Transport, transport)
        tcp.set_write_buffer_limits(high=self._connection.buffer_bytes)
        self._connection.upstream = tcp

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._connection.tell(FromUpstream(data))

    def pause_writing(self) -> None:  # noqa: D102
        self._connection.hold_client("upstream")

    def resume_writing(self) -> None:  # noqa: D102
        self._connection.release_client("upstream")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._connection.tell(UpstreamClosed())


def connector(upstream: Address) -> Callable[[Connection], Awaitable[None]]:
    """Return what connects a connection's other side to the NodeManager; it raises OSError."""

    async def connect(connection: Connection) -> None:
        await asyncio.get_running_loop().create_connection(lambda: UpstreamSide(connection), *upstream)

    return connect
