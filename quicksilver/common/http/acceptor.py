"""Accepts the connections of REST: no more at once than its bound, and never with the last open files.

At the bound a new connection takes the place of one that waits for a request of its client, so that connections that
stay silent shut nobody out.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

from quicksilver.common.http.connection import BoundedConnection
from quicksilver.common.http.idle_connections import IdleConnections
from quicksilver.common.process.limits import OTHER_FILES, Seldom
from quicksilver.common.process.socket_pair import accepted

RESERVED_FILES: Final = 64
"""Open files that REST never uses, so that connections of application masters and the journals get them."""
HANDSHAKE_S: Final = 30.0
"""Time for the TLS handshake of a new connection."""
_SHUTDOWN_S: Final = 5.0
"""Time for the end of TLS, for a peer that does not answer it."""
_seldom = Seldom()
RestSource = socket.socket | AsyncIterator[socket.socket]
"""A listening socket, or connections that another process accepted."""


def rest_limit(setting: int, allowed: int) -> int:
    """Return how many connections REST may have: what the settings want, or a third of the files to spare.

    allowed: the limit of open files of this process.
    """
    return max(1, min(setting, (allowed - OTHER_FILES) // 3))


class AcceptedConnection:
    """One connection from accept() on; its protocol reports when it has a request to answer, and when not."""

    def __init__(self, sock: socket.socket, acceptor: RestAcceptor) -> None:
        self.sock, self._acceptor = sock, acceptor
        self.host = _host(sock)
        self.protocol: BoundedConnection | None = None
        self.task: asyncio.Task[None] | None = None
        """Hands the socket to the loop, with TLS until the end of the handshake."""
        self.begun = False

    def busy(self) -> None:
        """Note that a whole request has arrived."""
        self._acceptor.idle.discard(self)

    def wait(self) -> None:
        """Note that all requests are answered."""
        if self in self._acceptor.open:
            self._acceptor.idle.add(self, self.host)

    def leave(self) -> None:
        """Note that the connection is closed."""
        self._acceptor.open.discard(self)
        self._acceptor.idle.discard(self)

    def end(self) -> None:
        """Close it, whatever it does."""
        self.leave()
        if self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()
        elif self.task is not None:
            self.task.cancel()


def _host(sock: socket.socket) -> str:
    """Return the address of the peer; "" where it is gone already."""
    try:
        name = sock.getpeername()
    except OSError:
        return ""
    return str(name[0]) if isinstance(name, tuple) else ""


class RestAcceptor:
    """Accepts until it is closed. A connection counts from accept() on, so in its TLS handshake, too.

    Beyond the bound one that waits for a request is closed: of the host with most of them the one that waits longest.
    Where all are being answered, the new connection is closed, unread.
    """

    def __init__(
        self,
        source: RestSource,
        make: Callable[[AcceptedConnection], BoundedConnection],
        max_connections: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Begin. make: returns the protocol of a new connection, which reports to its argument."""
        self._make, self._tls = make, tls
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit, self._files = rest_limit(max_connections, allowed), allowed - RESERVED_FILES
        self.open: set[AcceptedConnection] = set()
        """Connections, those in their TLS handshake included."""
        self.idle = IdleConnections[AcceptedConnection]()
        """Those of them that have no whole request to be answered."""
        self._handshakes: set[asyncio.Task[None]] = set()
        if isinstance(source, socket.socket):
            source.setblocking(False)
            source = accepted(source)
        self._accepting = asyncio.create_task(self._accept(source), name="rest-accept")

    async def _accept(self, connections: AsyncIterator[socket.socket]) -> None:
        async for sock in connections:
            if sock.fileno() >= self._files or not self._has_room():
                sock.close()
                remedy = "raise rest_connections or the limit of open files, or look who connects (`ss -tnp`)"
                _seldom.warning("REST connection closed: too many", limit=self._limit, remedy=remedy)
                continue
            connection = AcceptedConnection(sock, self)
            self.open.add(connection)
            connection.wait()
            connection.protocol = self._make(connection)
            connection.task = task = asyncio.create_task(self._begin(connection, connection.protocol))
            self._handshakes.add(task)
            task.add_done_callback(partial(self._over, connection))

    def _has_room(self) -> bool:
        """Return whether there is room for one more connection, if need be in place of one that waits."""
        if len(self.open) < self._limit:
            return True
        connection = self.idle.pop()
        if connection is None:
            return False
        connection.end()
        remedy = "raise rest_connections, or look who connects and stays silent (`ss -tnp`)"
        _seldom.warning("REST connection closed for a new one", peer=connection.host, limit=self._limit, remedy=remedy)
        return True

    async def _begin(self, connection: AcceptedConnection, protocol: BoundedConnection) -> None:
        loop, tls = asyncio.get_running_loop(), self._tls
        times = {} if tls is None else {"ssl_handshake_timeout": HANDSHAKE_S, "ssl_shutdown_timeout": _SHUTDOWN_S}
        try:
            await loop.connect_accepted_socket(lambda: protocol, connection.sock, ssl=tls, **times)
            connection.begun = True
        except OSError:  # it is gone, or its handshake failed, which the TLS context reports
            return

    def _over(self, connection: AcceptedConnection, task: asyncio.Task[None]) -> None:
        """Note that a connection is the loop's now, or ended before."""
        self._handshakes.discard(task)
        if not connection.begun:
            connection.sock.close()
            connection.leave()

    def close(self) -> None:
        """Accept no more; connections in their handshake are closed."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is accepted any more."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)
