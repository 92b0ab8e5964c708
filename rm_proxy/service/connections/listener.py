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
"""Between two checks on request."""
_CLOSED_FACTOR: Final = 0.2
"""Share of the usual time after which the next check comes while the socket is shut."""


class Listener:
    """Opens and shuts one bound socket; `on_change` gets each time whether it is open now.

    every_s: between two checks of an open port; timeout_s: of a check. A port that answers neither way changes nothing.
    For uvloop: asyncio's own loop leaves a connection open that it accepts just as the server is closed (Python 3.11).
    """

    def __init__(
        self,
        sock: socket.socket,
        upstream: Address,
        serve: Callable[[], asyncio.BaseProtocol],
        on_change: Callable[[bool], None],
        *,
        every_s: float,
        timeout_s: float,
    ) -> None:
        self.open = False
        self._sock, self._upstream, self._serve, self._on_change = sock, upstream, serve, on_change
        self._every_s, self._timeout_s = every_s, timeout_s
        self._soon = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._checking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check once, then go on checking."""
        if await self._accepts():
            await self._open()
        else:
            self._shut()
            self._on_change(False)
        self._checking = asyncio.get_running_loop().create_task(self._keep_checking(), name="listener")

    def close(self) -> None:
        """Stop checking and serving; a process with a copy of the socket goes on listening, if it did."""
        if self._checking is not None:
            self._checking.cancel()
        if self._server is not None:
            self._server.close()
        self._sock.close()

    def check_soon(self) -> None:
        """Check at once: a connection to the ResourceManager ended."""
        self._soon.set()

    def refused(self) -> None:
        """Shut: the ResourceManager has just refused a connection."""
        if self.open:
            self._shut()
            self._on_change(False)

    async def _keep_checking(self) -> None:
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
        """Return whether the ResourceManager accepts connections; None when it neither accepts nor refuses."""
        try:
            async with asyncio.timeout(self._timeout_s):
                _, writer = await asyncio.open_connection(self._upstream.host, self._upstream.port)
        except ConnectionRefusedError:
            return False
        except OSError:
            return None  # no answer in time, or no route: the state is not known
        writer.close()
        return True

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._serve, sock=self._sock.dup(), backlog=_BACKLOG)
        self.open = True
        self._on_change(True)

    def _shut(self) -> None:
        self.open = False
        if self._server is not None:
            self._server.close()
            self._server = None
        with suppress(OSError):  # it does not listen
            self._sock.shutdown(socket.SHUT_RD)
