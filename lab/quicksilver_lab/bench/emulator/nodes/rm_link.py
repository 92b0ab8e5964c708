"""Connections to the ResourceManager's resource tracker; several nodes may share one, as their calls have ids."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final, cast

from hadoop_rpc.connection import ClientConnection, Failure, Response
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.login import TokenLogin
from quicksilver_apps.yarn.yarn_client import RemoteCallError
from quicksilver_lab.bench.emulator.nodes.tracker import TRACKER_PROTOCOL

_USER: Final = "yarn"

Answered = Callable[[bytes | Exception], None]
"""Told of a call's answer, or of why there is none."""


class RmLink(asyncio.Protocol):
    """One connection, which carries any number of calls at a time."""

    def __init__(self) -> None:
        self._connection = ClientConnection()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, tuple[str, Answered]] = {}
        self._ids = itertools.count()

    async def connect(self, address: tuple[str, int]) -> None:
        """Dial, as user yarn. Raises OSError."""
        await asyncio.get_running_loop().create_connection(lambda: self, *address)

    def close(self) -> None:
        """Hang up; waiting calls fail."""
        if self._transport is not None:
            self._transport.abort()

    def call(self, method: str, request: bytes, answered: Answered) -> None:
        """Send a call; `answered` gets its answer."""
        if self._transport is None:
            answered(ConnectionResetError("the ResourceManager closed the connection"))
            return
        call_id = next(self._ids) & 0x7FFFFFFF
        self._waiting[call_id] = (method, answered)
        self._transport.write(self._connection.call(method, TRACKER_PROTOCOL, request, call_id=call_id))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Log in."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(TokenLogin(self._connection, TRACKER_PROTOCOL, user=_USER).start())

    def data_received(self, data: bytes) -> None:
        """Hand answers to those who wait for them."""
        try:
            for event in self._connection.receive_data(data):
                if isinstance(event, Response) and event.call_id in self._waiting:
                    self._waiting.pop(event.call_id)[1](event.body)
                elif isinstance(event, Failure) and event.call_id in self._waiting:
                    method, answered = self._waiting.pop(event.call_id)
                    answered(RemoteCallError(method, event))
        except RemoteProtocolError as error:
            self.connection_lost(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all waiting calls."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        waiting, self._waiting = self._waiting, {}
        for _, answered in waiting.values():
            answered(exc or ConnectionResetError("the ResourceManager closed the connection"))
