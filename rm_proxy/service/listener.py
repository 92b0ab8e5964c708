"""The proxy's listening socket: open exactly while the ResourceManager's own port accepts connections.

A ResourceManager that is down, or standby (its scheduler service does not listen then), refuses connections; so does
the proxy in front of it, and application masters behave as they do without it. Were the connection accepted and closed
instead, they would sleep for yarn.resourcemanager.connect.retry-interval.ms before they try again.

The socket is shut, not closed: whoever keeps a copy of it over a restart (quicksilver/common/process/fdstore.py) does
not listen either, and it listens again without being bound anew (its port must have been named: one that the kernel
chose is lost).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
_BACKLOG: Final = 4096
_PAUSE_S: Final = 0.05
"""Between two looks that are asked for."""
_CLOSED_FACTOR: Final = 0.2
"""How much sooner the next look comes while it is shut."""


class Listener:
    """Opens and shuts one bound socket; `on_turn` is told each time, with whether it is open now.

    every_s: between two looks at an open port; timeout_s: of a look. A port that answers neither way changes nothing.
    For uvloop: asyncio's own loop leaves a connection open that it accepts just as the server is closed (Python 3.11).
    """

    def __init__(
        self,
        sock: socket.socket,
        upstream: Address,
        serve: Callable[[], asyncio.BaseProtocol],
        on_turn: Callable[[bool], None],
        *,
        every_s: float,
        timeout_s: float,
    ) -> None:
        self.open = False
        self._sock, self._upstream, self._serve, self._on_turn = sock, upstream, serve, on_turn
        self._every_s, self._timeout_s = every_s, timeout_s
        self._soon = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look once, then keep looking."""
        if await self._accepts():
            await self._open()
        else:
            self._shut()
            self._on_turn(False)
        self._looking = asyncio.get_running_loop().create_task(self._keep_looking(), name="listener")

    def close(self) -> None:
        """Stop looking and serving; who keeps a copy of the socket goes on listening, if it did."""
        if self._looking is not None:
            self._looking.cancel()
        if self._server is not None:
            self._server.close()
        self._sock.close()

    def look_soon(self) -> None:
        """Look at once: a connection to the ResourceManager ended."""
        self._soon.set()

    def refused(self) -> None:
        """Shut: the ResourceManager has just refused a connection."""
        if self.open:
            self._shut()
            self._on_turn(False)

    async def _keep_looking(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s if self.open else self._every_s * _CLOSED_FACTOR):
                    await self._soon.wait()
            self._soon.clear()
            accepts = await self._accepts()
            if accepts is True and not self.open:
                await self._open()
            elif accepts is False:
                self.refused()
            await asyncio.sleep(_PAUSE_S)

    async def _accepts(self) -> bool | None:
        """Tell whether the ResourceManager accepts connections; None when it neither does nor refuses."""
        try:
            async with asyncio.timeout(self._timeout_s):
                _, writer = await asyncio.open_connection(self._upstream.host, self._upstream.port)
        except ConnectionRefusedError:
            return False
        except OSError:
            return None  # no answer in time, or no way there: nothing is known
        writer.close()
        return True

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._serve, sock=self._sock.dup(), backlog=_BACKLOG)
        self.open = True
        self._on_turn(True)

    def _shut(self) -> None:
        self.open = False
        if self._server is not None:
            self._server.close()
            self._server = None
        with suppress(OSError):  # it does not listen
            self._sock.shutdown(socket.SHUT_RD)
