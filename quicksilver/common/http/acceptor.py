"""Accepts the connections of REST: no more at once than its bound, and never with the last open files."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from quicksilver.common.process.limits import OTHER_FILES, Seldom
from quicksilver.common.process.socket_pair import accepted

RESERVED_FILES: Final = 64
"""Open files that REST never uses, so that connections of application masters and the journals get them."""
HANDSHAKE_S: Final = 30.0
"""Time for the TLS handshake of a new connection."""
_SHUTDOWN_S: Final = 5.0
"""Time for the end of TLS, for a peer that does not answer it."""
_seldom = Seldom()


def rest_limit(wanted: int, allowed: int) -> int:
    """Return how many connections REST may have: what the settings want, or a third of the files to spare.

    allowed: the limit of open files of this process.
    """
    return max(1, min(wanted, (allowed - OTHER_FILES) // 3))


class RestAcceptor:
    """Accepts until it is closed; a connection beyond the bound is closed at once, unread.

    It counts from accept() on: a TLS handshake that does not go on counts, too.
    """

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[Callable[[], None]], asyncio.Protocol],
        max_connections: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Begin. make: returns the protocol of a new connection, which calls its argument when it is closed."""
        self._make, self._tls = make, tls
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit, self._files = rest_limit(max_connections, allowed), allowed - RESERVED_FILES
        self._open: set[socket.socket] = set()
        """Connections, those in their TLS handshake included."""
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(listener), name="rest-accept")

    async def _accept(self, listener: socket.socket) -> None:
        async for sock in accepted(listener):
            if len(self._open) >= self._limit or sock.fileno() >= self._files:
                sock.close()
                remedy = "raise rest_connections or the limit of open files, or look who connects (`ss -tnp`)"
                _seldom.warning("REST connection closed: too many", limit=self._limit, remedy=remedy)
                continue
            self._open.add(sock)
            task = asyncio.create_task(self._begin(sock))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _begin(self, sock: socket.socket) -> None:
        leave = partial(self._open.discard, sock)
        protocol, loop, tls = self._make(leave), asyncio.get_running_loop(), self._tls
        times = {} if tls is None else {"ssl_handshake_timeout": HANDSHAKE_S, "ssl_shutdown_timeout": _SHUTDOWN_S}
        begun = False
        try:
            await loop.connect_accepted_socket(lambda: protocol, sock, ssl=tls, **times)
            begun = True
        except OSError:  # it is gone, or its handshake failed, which the TLS context reports
            return
        finally:
            if not begun:
                sock.close()
                leave()

    def close(self) -> None:
        """Accept no more; connections in their handshake are closed."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is accepted any more."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)
