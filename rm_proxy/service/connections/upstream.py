"""The ResourceManager's scheduler port: whether it can be reached, and whether application masters are let in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from quicksilver.common.address import Address
from quicksilver.common.process.logs import get_logger
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.connections.listener import Listener
from rm_proxy.service.recovery import Recovery

log = get_logger(__name__)


class Upstream:
    """Opens the proxy's port while the ResourceManager's is open; with high availability it serves or stands by.

    on_open: called each time when application masters are let in; close_undialed: closes connections of masters for
    which the ResourceManager was not reached yet.
    """

    def __init__(
        self,
        address: Address,
        ha: bool,
        settings: ProxySettings,
        coordinator: Coordinator,
        metrics: ProxyMetrics,
        recovery: Recovery,
        on_open: Callable[[], None],
        close_undialed: Callable[[], None],
    ) -> None:
        self.address = address
        self.down: str | None = None
        """Why the ResourceManager cannot be reached; None while it can."""
        self.let_in = False
        """Whether the scheduler port is open."""
        self._ha, self._settings = ha, settings
        self._coordinator, self._metrics, self._recovery = coordinator, metrics, recovery
        self._on_open, self._close_undialed = on_open, close_undialed
        self._listener: Listener | None = None

    async def start(self, sock: socket.socket, serve: Callable[[], asyncio.BaseProtocol]) -> None:
        """Let application masters in at a bound socket, whenever the ResourceManager is there and active."""
        self._listener = Listener(
            sock,
            self.address,
            serve,
            self.changed,
            every_s=self._settings.rm_probe_s,
            timeout_s=self._settings.connect_timeout_s,
        )
        await self._listener.start()

    def close(self) -> None:
        """Let no more application masters in."""
        if self._listener is not None:
            self._listener.close()

    def lost(self) -> None:
        """Check at once whether the ResourceManager is still there, since it closed a connection."""
        if self._listener is not None:
            self._listener.check_soon()

    def failed(self, error: OSError) -> None:
        """Log an unreachable ResourceManager once, and refuse application masters if it refuses them."""
        if isinstance(error, ConnectionRefusedError) and self._listener is not None:
            self._listener.refused()
        if self._ha:
            self._close_undialed()  # the other ResourceManager may be active: no waiting for this one
            return
        if self.down is None:
            log.error(
                "the ResourceManager's scheduler cannot be reached",
                upstream=str(self.address),
                why=str(error),
                remedy="start it, or correct proxy.upstream",
            )
        self.down = str(error)

    def reached(self) -> None:
        """Log that the ResourceManager is back."""
        if self.down is not None:
            log.info("the ResourceManager's scheduler is reachable again", upstream=str(self.address))
            self.down = None

    def changed(self, is_open: bool) -> None:
        """Follow the ResourceManager: application masters are let in while it is there, and active."""
        self.let_in = is_open
        self._metrics.active.set(is_open)
        if is_open:
            self.reached()
            self._coordinator.serve()
            self._on_open()
            log.info("application masters are let in", upstream=str(self.address))
        elif self._ha:
            self._coordinator.stand_by()
            self._recovery.write_touched()
            self.failed(ConnectionRefusedError("it is not active"))
            log.info("standby: the ResourceManager behind is not active", upstream=str(self.address))
        else:
            self.failed(ConnectionRefusedError("it refuses connections"))
