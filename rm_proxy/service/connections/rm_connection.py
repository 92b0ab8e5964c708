"""The ResourceManager's side of an application master's connection: dialed with the first bytes, which wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from quicksilver.common.process.dial import dial
from quicksilver.common.process.socket_pair import PairedSocket
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.connections.upstream import Upstream

_DIALING: Final = "the ResourceManager is being dialed"


class RmConnection(PairedSocket):
    """The dialed socket of a pair; `receive` is called with the ResourceManager's bytes."""

    def __init__(
        self, upstream: Upstream, metrics: ProxyMetrics, connect_timeout_s: float, receive: Callable[[bytes], None]
    ) -> None:
        super().__init__()
        self.dialing: asyncio.Task[None] | None = None
        """None until `dial` is called."""
        self._upstream, self._metrics = upstream, metrics
        self._connect_timeout_s = connect_timeout_s
        self.data_received = receive  # type: ignore[method-assign, assignment]  # one call less for each answer
        self._unsent: list[bytes] = []

    def dial(self) -> None:
        """Connect to the ResourceManager, while the application master stays connected."""
        self.dialing = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        upstream, loop = self._upstream, asyncio.get_running_loop()
        address = upstream.address
        try:
            await dial(
                partial(loop.create_connection, lambda: self, address.host, address.port),
                timeout_s=self._connect_timeout_s,
                refused=upstream.failed,
                has_client=lambda: not self._peer.is_closing,
            )
        except OSError as error:
            self._metrics.connections_refused.labels("upstream").inc()
            upstream.failed(error)
            self._peer.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the bytes that waited, and read the application master again."""
        super().connection_made(transport)
        self._upstream.reached()
        if self._peer.is_closing:
            transport.close()
            return
        for data in self._unsent:
            self.write(data)
        self._unsent.clear()
        self._peer.release(_DIALING)

    def write(self, data: bytes) -> None:
        """Send bytes; until the ResourceManager is connected, store those of one read and stop reading.

        (Under uvloop a pause within connection_made has no effect, so that one read may come before.)
        """
        if self.transport is not None:
            self.transport.write(data)
        else:
            self._unsent.append(data)
            self._peer.hold(_DIALING)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the application master's socket with this one."""
        if not self._peer.is_closing:
            self._upstream.lost()
        self._peer.close()
