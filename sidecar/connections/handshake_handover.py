"""Connections in the middle of their handshake outlive the sidecar.

Hadoop's clients repeat a call whose connection was cut, but not a handshake (ipc.Client wraps what broke it in a plain
IOException, which yarn.client.ServerProxy does not repeat): the start would fail. So both sockets of such a connection
are kept (quicksilver/common/process/fdstore.py) until the handshake is over; the next process passes their bytes on,
unread.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from typing import Final

from quicksilver.common.process import fdstore
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.socket_pair import Forwarder, SocketPair
from sidecar.connections.connection import Connection

log = get_logger(__name__)
_PREFIX: Final = "sidecar-handshake-"
SILENT_S: Final = 10.0
"""A connection that was taken over is closed after this silence: bytes of it may have been lost with the process."""


class HandshakeHandover:
    """The stored handshakes of one process."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._names: dict[Connection, str] = {}

    def begin(self, connection: Connection) -> None:
        """Store the sockets of a connection outside of this process, where that is possible."""
        if connection.gate.opened:
            return
        sides = (connection.client, connection.upstream)
        sockets = [side.transport.get_extra_info("socket") for side in sides if side.transport is not None]
        if len(sockets) < len(sides) or None in sockets:  # one of them is closed already
            return
        name = f"{_PREFIX}{os.getpid()}-{next(self._numbers)}"
        try:
            if fdstore.store(name, *sockets):
                self._names[connection] = name
        except OSError as error:
            log.warning(
                "a handshake cannot be stored: it breaks if the sidecar ends now", peer=connection.peer, why=str(error)
            )

    def over(self, connection: Connection) -> None:
        """Release the stored sockets of a connection once its handshake is over."""
        gate = connection.gate
        if connection not in self._names or not (gate.opened or not gate.client_open or not gate.upstream_open):
            return
        forget(self._names.pop(connection))


def forget(name: str) -> None:
    """Release the sockets that are stored under a name; nothing happens for ""."""
    if not name:
        return
    try:
        fdstore.forget(name)
    except OSError as error:
        log.warning("a stored connection could not be released", name=name, why=str(error))


def taken() -> list[tuple[str, socket.socket, socket.socket]]:
    """Return the sockets that the process before stored: name, the client's socket, the NodeManager's."""
    pairs = []
    for name in [name for name in fdstore.names() if name.startswith(_PREFIX)]:
        sockets = fdstore.take(name)
        if len(sockets) == 2:
            pairs.append((name, sockets[0], sockets[1]))
            continue
        for sock in sockets:
            sock.close()
        forget(name)
    return pairs


class _TimedForwarder(Forwarder):
    """Forwards bytes, and restarts the timeout for silence."""

    def __init__(self, ended: asyncio.Future[None], silence: asyncio.Timeout) -> None:
        super().__init__(ended)
        self._silence = silence

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        self._silence.reschedule(asyncio.get_running_loop().time() + SILENT_S)
        super().data_received(data)


async def pass_on(name: str, client: socket.socket, upstream: socket.socket) -> None:
    """Relay a connection that was taken over until both sides close it, or both are silent."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    try:
        async with asyncio.timeout(SILENT_S) as silence:
            pair = SocketPair(_TimedForwarder(ended, silence), _TimedForwarder(ended, silence), ended)
            await loop.create_connection(lambda: pair.dialed, sock=upstream)
            await pair.relay(client)
    except TimeoutError:
        log.info("a connection that was taken over is closed: both sides are silent", name=name)
    except OSError as error:
        log.info("a connection that was taken over has ended", name=name, why=str(error))
    finally:
        forget(name)
