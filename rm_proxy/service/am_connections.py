"""The proxy's sockets: an application master's connection and its own upstream to the ResourceManager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from time import time
from typing import Final, Protocol, cast

from hadoop_rpc.errors import RemoteProtocolError
from quicksilver.common.process.dial import dial
from quicksilver.common.process.limits import OTHER_FILES, Seldom, raise_open_files
from quicksilver.common.process.logs import get_logger
from rm_proxy.attempt.effects import Effect
from rm_proxy.attempt.snapshot import Note
from rm_proxy.config import Endpoints, ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.relay.relay import (
    ALLOCATE,
    FINISH,
    REGISTER,
    Called,
    Command,
    Identified,
    Noted,
    PassedThrough,
    Relay,
    ToAm,
    TookOver,
    ToRm,
)
from rm_proxy.service.connection_limits import ConnectionLimits

log = get_logger(__name__)
_seldom = Seldom()
_SETTINGS: Final = {
    "limit": "proxy.max_connections",
    "host": "proxy.max_logins_per_host",
    "memory": "proxy.max_unfinished_mb",
}
FINISH_S: Final = 2.0
"""How long calls on their way may take to be answered when the proxy stops."""


class Hub(Protocol):
    """What a connection needs of the proxy around it."""

    settings: ProxySettings
    endpoints: Endpoints
    coordinator: Coordinator
    metrics: ProxyMetrics
    open_connections: set[AmConnection]
    limits: ConnectionLimits

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Do what an attempt wants done beside its answers."""

    def identified(self, attempt_id: str) -> None:
        """Take in that an attempt connected."""

    def faulted(self, kind: FaultKind, app_id: str) -> None:
        """Count a fault; app_id "" when it belongs to no application."""

    def broken(self, attempt_id: str) -> None:
        """Take in that our own code failed over an attempt."""

    def keep(self, attempt_id: str, note: Note) -> None:
        """Write down what changed of an attempt, before the bytes that it is about leave."""

    def upstream_failed(self, error: OSError) -> None:
        """Take in that the ResourceManager cannot be reached."""

    def passed_encrypted(self) -> None:
        """Take in that a connection passes unread because it is signed or encrypted."""

    def upstream_reached(self) -> None:
        """Take in that the ResourceManager can be reached."""

    def upstream_lost(self) -> None:
        """Take in that the ResourceManager closed a connection."""


class AmConnection(asyncio.Protocol):
    """The accepted side of one connection; it owns the relay machine and dials the ResourceManager."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.relay = Relay(hub.coordinator.attempt, hub.settings.max_frame_mb << 20)
        self.peer = self._host = "?"
        self._known = False
        self._kept = 0
        self._transport: asyncio.Transport | None = None
        self._upstream: RmConnection | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent: list[bytes] = []
        self._finishing = False
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse beyond the limits, else wait for the first bytes."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._host, port = (str(peer[0]), peer[1]) if peer else ("?", 0)
        self.peer = f"{self._host}:{port}"
        hub = self._hub
        refused = hub.limits.enter(self._host)
        if refused:
            hub.metrics.connections_refused.labels(refused).inc()
            _seldom.warning(f"connection refused, {_SETTINGS[refused]} is reached", peer=self.peer)
            self._transport.abort()
            return
        hub.open_connections.add(self)
        hub.metrics.connections_opened.inc()
        hub.metrics.connections.set(len(hub.open_connections))
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(hub.settings.handshake_timeout_s, self._out_of_time)

    async def _dial(self) -> None:
        hub, loop = self._hub, asyncio.get_running_loop()
        address = hub.endpoints.upstream

        async def connect() -> None:
            _, self._upstream = await loop.create_connection(lambda: RmConnection(self), address.host, address.port)

        timeout_s = hub.settings.connect_timeout_s
        try:
            if not await dial(connect, timeout_s=timeout_s, refused=hub.upstream_failed, wanted=self._is_open):
                return
        except OSError as error:
            hub.metrics.connections_refused.labels("upstream").inc()
            hub.upstream_failed(error)
            self.close()
            return
        assert self._upstream is not None
        hub.upstream_reached()
        if self._transport is None or self._transport.is_closing():
            self._upstream.close()
            return
        for data in self._unsent:
            self._upstream.write(data)
        self._unsent.clear()
        self._transport.resume_reading()

    def close_unless_dialed(self) -> None:
        """Break off while the ResourceManager is not reached yet."""
        if self._upstream is None and self._transport is not None:
            self._transport.abort()

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _out_of_time(self) -> None:
        if not self.relay.known:
            reason = "upstream" if self._dialing is not None and self._upstream is None else "handshake"
            self._hub.metrics.connections_refused.labels(reason).inc()
            _seldom.warning("connection closed, it did not log in within proxy.handshake_timeout_s", peer=self.peer)
            self.close()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the application master; who says nothing costs the ResourceManager no connection."""
        if self not in self._hub.open_connections:
            return
        if self._dialing is None:
            self._dialing = asyncio.get_running_loop().create_task(self._dial())
        self._take("am", self.relay.from_am, data)

    def from_rm(self, data: bytes) -> None:
        """Take bytes of the ResourceManager."""
        self._take("rm", self.relay.from_rm, data)

    def _take(self, side: str, handle: Callable[[bytes, float], list[Command]], data: bytes) -> None:
        """Give bytes to the machine; whatever it raises ends this connection alone, and counts."""
        try:
            self._obey(handle(data, time()))
            self._keep_count()
        except RemoteProtocolError as error:
            self._hub.metrics.protocol_errors.labels(side).inc()
            log_line = log.warning if self.relay.attempt is not None else _seldom.warning
            log_line("connection closed, bytes out of form", side=side, peer=self.peer, why=str(error))
            self._faulted(FaultKind.PROTOCOL)
        except Exception:
            log.exception("connection closed, a fault of the proxy", side=side, peer=self.peer)
            self._faulted(FaultKind.INTERNAL)

    def _keep_count(self) -> None:
        """Take in who the peer is by now, and what is kept of it; too much closes the connection."""
        relay, limits = self.relay, self._hub.limits
        if not self._known and relay.known:
            self._known = True
            limits.logged_in(self._host)
        before, self._kept = self._kept, relay.kept_bytes
        if self._kept != before and not limits.keeps(before, self._kept):
            self._hub.metrics.connections_refused.labels("memory").inc()
            _seldom.warning(f"connection closed, {_SETTINGS['memory']} is reached", peer=self.peer, bytes=self._kept)
            self.close()

    def _faulted(self, kind: FaultKind) -> None:
        """Count a fault and close; one before the login is nobody's: anybody may send garbage."""
        attempt = self.relay.attempt
        if attempt is not None or kind is FaultKind.INTERNAL:
            self._hub.faulted(kind, attempt.app_id if attempt is not None else "")
        if attempt is not None and kind is FaultKind.INTERNAL:
            self._hub.broken(attempt.id)
        self.close()

    def _obey(self, commands: list[Command]) -> None:
        metrics = self._hub.metrics
        for command in commands:
            if type(command) is ToRm:
                metrics.to_rm.inc(len(command.data))
                self._send_up(command.data)
            elif type(command) is ToAm:
                metrics.to_am.inc(len(command.data))
                if command.effects:
                    self._hub.carry_out(command.effects)
                if self._transport is not None:
                    self._transport.write(command.data)
                if self._finishing and not self.relay.outstanding:
                    self.close()
            elif isinstance(command, Called):
                self._count(command)
            elif type(command) is Noted:
                self._hub.keep(command.attempt_id, command.note)
            elif isinstance(command, TookOver):
                self._took_over(command)
            elif isinstance(command, Identified):
                self._hub.identified(command.attempt_id)
            elif isinstance(command, PassedThrough):
                self._passed_through(command)

    def _took_over(self, command: TookOver) -> None:
        self._hub.metrics.resyncs.labels(command.step).inc()
        if command.step == "astray":
            text = "nothing is known of an application that was registered before: its asks pass as they are"
            log.warning(text, attempt=command.attempt_id, peer=self.peer)
        else:
            log.info(f"an application is taken over: {command.step}", attempt=command.attempt_id)

    def _send_up(self, data: bytes) -> None:
        """Send to the ResourceManager; while it is being dialed, keep one read's bytes and read no more.

        (Under uvloop a pause within connection_made has no effect, so that one read may come before.)
        """
        if self._upstream is not None:
            self._upstream.write(data)
        elif self._transport is not None:
            self._unsent.append(data)
            self._transport.pause_reading()

    def _count(self, call: Called) -> None:
        metrics = self._hub.metrics
        if call.method != ALLOCATE:
            metrics.calls.labels(call.method if call.method in (REGISTER, FINISH) else "other").inc()
        elif call.rewritten:
            metrics.rewritten.inc()
        else:
            metrics.passed.inc()

    def _passed_through(self, command: PassedThrough) -> None:
        if command.encrypted:
            self._hub.metrics.encrypted_connections.inc()
            self._hub.passed_encrypted()
            log.warning(
                "an encrypted connection passes unread: its containers stay guaranteed",
                peer=self.peer,
                why=command.reason,
                remedy="let the scheduler's port speak hadoop.rpc.protection=authentication (docs/security.md)",
            )
        else:
            log.info("a connection passes unread", peer=self.peer, why=command.reason)

    def pause_writing(self) -> None:
        """Stop reading from the ResourceManager while the application master does not read."""
        if self._upstream is not None:
            self._upstream.pause()

    def resume_writing(self) -> None:
        """Read from the ResourceManager again."""
        if self._upstream is not None:
            self._upstream.resume()

    def pause(self) -> None:
        """Stop reading from the application master while the ResourceManager does not read."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read from the application master again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def finish(self) -> None:
        """Take no more calls, and close when those on their way are answered."""
        self._finishing = True
        if not self.relay.outstanding:
            self.close()
        elif self._transport is not None:
            self._transport.pause_reading()

    def close(self) -> None:
        """Close both sides, what is buffered is still sent."""
        if self._transport is not None:
            self._transport.close()

    def upstream_lost(self) -> None:
        """Close, as the ResourceManager's side is closed."""
        if self._transport is not None and not self._transport.is_closing():
            self._hub.upstream_lost()
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the upstream with the connection."""
        hub = self._hub
        if self in hub.open_connections:
            hub.limits.leave(self._host, self._known)
            hub.limits.keeps(self._kept, 0)
        hub.open_connections.discard(self)
        self.gone.set()
        hub.metrics.connections.set(len(hub.open_connections))
        if self._deadline is not None:
            self._deadline.cancel()
        if self._upstream is not None:
            self._upstream.close()


async def finish_all(connections: Collection[AmConnection]) -> None:
    """Close connections once their calls are answered, within FINISH_S; the rest without."""
    for connection in list(connections):
        connection.finish()
    waits = [asyncio.create_task(connection.gone.wait()) for connection in connections]
    if waits:
        await asyncio.wait(waits, timeout=FINISH_S)
    for connection in list(connections):
        connection.close()
    for wait in waits:
        wait.cancel()


class RmConnection(asyncio.Protocol):
    """The dialed side of one connection."""

    def __init__(self, am: AmConnection) -> None:
        self._am = am
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand bytes of the ResourceManager over."""
        self._am.from_rm(data)

    def write(self, data: bytes) -> None:
        """Send bytes to the ResourceManager."""
        if self._transport is not None:
            self._transport.write(data)

    def pause_writing(self) -> None:
        """Stop reading from the application master while the ResourceManager does not read."""
        self._am.pause()

    def resume_writing(self) -> None:
        """Read from the application master again."""
        self._am.resume()

    def pause(self) -> None:
        """Stop reading from the ResourceManager."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read from the ResourceManager again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close this side, what is buffered is still sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the application master's side with it."""
        self._am.upstream_lost()


def connection_limit(settings: ProxySettings) -> int:
    """Return how many connections of application masters may be open: each needs two files, REST needs some too."""
    wanted = 2 * settings.max_connections + settings.rest_connections
    spare = raise_open_files(wanted, "proxy.max_connections, proxy.rest_connections") - OTHER_FILES
    rest = min(settings.rest_connections, spare // 3)
    return max(1, min(settings.max_connections, (spare - rest) // 2))
