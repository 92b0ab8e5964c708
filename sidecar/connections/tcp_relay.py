"""Plain TCP relay: the NodeManager's web port, whose server is bound to loopback together with its RPC port."""

from __future__ import annotations

import asyncio
import socket

from quicksilver.common.address import Address
from quicksilver.common.process.background_tasks import BackgroundTasks
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.socket_pair import SocketPair, accepted, forwarding_pair

log = get_logger(__name__)
_seldom = Seldom()


class TcpRelay:
    """Relays every connection of a listening socket to `upstream`, reading no faster than the other side takes."""

    def __init__(self, upstream: Address, max_connections: int, connect_timeout_s: float) -> None:
        self.upstream, self.max_connections, self.connect_timeout_s = upstream, max_connections, connect_timeout_s
        self._open = BackgroundTasks("a relayed web connection failed")
        self._refused = False

    async def serve(self, sock: socket.socket) -> None:
        """Relay until cancelled; the socket is closed then, and all connections."""
        try:
            async for client in accepted(sock):
                if len(self._open) >= self.max_connections:
                    _seldom.warning("web connection closed: too many", limit=self.max_connections)
                    client.close()
                else:
                    self._open.spawn(self._relay(client))
        finally:
            await self._open.cancel()

    async def _relay(self, client: socket.socket) -> None:
        pair = forwarding_pair()
        if not await self._dial(pair, client):
            return
        try:
            await pair.relay(client)
        except OSError:
            log.debug("a web connection was reset")

    async def _dial(self, pair: SocketPair, client: socket.socket) -> bool:
        """Connect to the web server for a client; close the client and return False when it does not answer."""
        connected = False
        try:
            async with asyncio.timeout(self.connect_timeout_s):
                await pair.dial(*self.upstream)
            connected = True
        except (OSError, TimeoutError) as error:
            if not self._refused:
                log.warning("the NodeManager's web server does not answer", upstream=str(self.upstream), why=str(error))
        finally:
            self._refused = not connected
            if not connected:
                client.close()
        return connected
