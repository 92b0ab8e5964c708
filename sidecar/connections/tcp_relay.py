"""Plain TCP relay: the NodeManager's web port, whose server is bound to loopback together with its RPC port."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
_seldom = Seldom()
_CHUNK_BYTES: Final = 1 << 16


class TcpRelay:
    """Relays every connection of a listening socket to `upstream`, reading no faster than the other side takes."""

    def __init__(self, upstream: Address, max_connections: int, connect_timeout_s: float) -> None:
        self.upstream, self.max_connections, self.connect_timeout_s = upstream, max_connections, connect_timeout_s
        self._open: set[asyncio.Task[None]] = set()
        self._refused = False

    async def serve(self, sock: socket.socket) -> None:
        """Relay until cancelled; the socket is closed then, and all connections."""
        server = await asyncio.start_server(self._accepted, sock=sock, limit=_CHUNK_BYTES)
        try:
            await server.serve_forever()
        finally:
            server.close()
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self.max_connections:
            _seldom.warning("web connection closed: too many", limit=self.max_connections)
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._relay(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self.connect_timeout_s):
                up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=_CHUNK_BYTES)
        except (OSError, TimeoutError) as error:
            if not self._refused:
                log.warning("the NodeManager's web server does not answer", upstream=str(self.upstream), why=str(error))
            self._refused = True
            writer.transport.abort()
            return
        self._refused = False
        try:
            await asyncio.gather(_pipe(reader, up_writer), _pipe(up_reader, writer))
        except OSError:
            log.debug("a web connection was reset")
        finally:
            up_writer.transport.abort()
            writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
