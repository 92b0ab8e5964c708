"""A master's connection whose login another process of the proxy relayed (front.py); from there on it is as any."""

from __future__ import annotations

import asyncio
import socket
from time import time

from hadoop_rpc.errors import RemoteProtocolError
from quicksilver.common.process.logs import get_logger
from rm_proxy.service.connections.am_connections import AmConnection, ConnectionParts
from rm_proxy.service.workers.sockets import MasterLogin

log = get_logger(__name__)


class ContinuedConnection(AmConnection):
    """The connection of a login up to now."""

    def __init__(self, parts: ConnectionParts, login: MasterLogin) -> None:
        super().__init__(parts)
        self._login = login

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the login again, before anything else is read; what was relayed of it is not sent again."""
        super().connection_made(transport)
        if self.is_closing:
            return
        chunks, relayed = self._login.chunks, self._login.relayed
        try:
            for from_master, data in chunks[:relayed]:
                (self.relay.from_am if from_master else self.relay.from_rm)(data, time())
        except RemoteProtocolError as error:
            log.warning("connection closed: its login cannot be read again", peer=self.peer, why=str(error))
            self.abort()
            return
        for from_master, data in chunks[relayed:]:
            side, handle = ("am", self.relay.from_am) if from_master else ("rm", self.relay.from_rm)
            self._handle(side, handle, data)


async def adopt(connection: ContinuedConnection, to_master: socket.socket, to_rm: socket.socket) -> None:
    """Give a connection its sockets."""
    loop, rm = asyncio.get_running_loop(), connection._rm
    rm.dialing = asyncio.current_task()
    try:
        await loop.connect_accepted_socket(lambda: connection, to_master)
        if connection.is_closing:
            to_rm.close()
            return
        await loop.create_connection(lambda: rm, sock=to_rm)
        if connection.holds and connection.transport is not None:
            connection.transport.pause_reading()  # uvloop began to read after `connection_made`
    except OSError as error:
        log.warning("connection closed: it ended as its worker got it", peer=connection.peer, why=str(error))
        connection.abort()
        to_rm.close()
