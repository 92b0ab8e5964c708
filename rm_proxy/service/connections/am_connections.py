"""Connections of application masters, each with its own connection to the ResourceManager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic, time
from typing import Final

from hadoop_rpc.errors import RemoteProtocolError
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.socket_pair import PairedSocket
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.effects import Effect
from rm_proxy.attempt.snapshot import Note
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.relay.commands import (
    Called,
    Command,
    Identified,
    MintedRefused,
    Noted,
    PassedThrough,
    Replaced,
    ToAm,
    TookOver,
    ToRm,
)
from rm_proxy.relay.relay import ALLOCATE, FINISH, REGISTER, Relay
from rm_proxy.service.connections.connection_limits import ConnectionLimits, connection_limit
from rm_proxy.service.connections.costly_attempts import COSTLY_S
from rm_proxy.service.connections.rm_connection import RmConnection
from rm_proxy.service.connections.upstream import Upstream

log = get_logger(__name__)
_seldom = Seldom()
_SETTINGS: Final = {
    "limit": "proxy.max_connections",
    "host": "proxy.max_logins_per_host",
    "memory": "proxy.max_unfinished_mb",
}
FINISH_S: Final = 2.0
"""Seconds within which open calls are answered when the proxy stops."""
_FINISHING: Final = "the proxy stops"
LOOKUP_WAIT_S: Final = 1.0
"""How long an application master is not read while its application's record is: without it all it asks for goes
guaranteed."""
_LOOKING_UP: Final = "its application is looked up"


class Connections:
    """The open connections of application masters, and their limits."""

    def __init__(self, settings: ProxySettings, metrics: ProxyMetrics) -> None:
        self.limits = ConnectionLimits(
            connection_limit(settings), settings.max_logins_per_host, settings.max_unfinished_mb << 20
        )
        self.open: set[AmConnection] = set()
        self.encrypted_s = 0.0
        """When an encrypted connection last passed unread; 0 never."""
        self._metrics = metrics

    def add(self, connection: AmConnection) -> None:
        """Add a connection that the limits let in."""
        self.open.add(connection)
        self._metrics.connections_opened.inc()
        self._metrics.connections.set(len(self.open))

    def discard(self, connection: AmConnection) -> None:
        """Remove a connection, whether it was let in or not."""
        self.open.discard(connection)
        self._metrics.connections.set(len(self.open))

    def close_undialed(self) -> None:
        """Break off the connections for which the ResourceManager was not reached yet."""
        for connection in list(self.open):
            connection.close_unless_dialed()

    async def finish(self) -> None:
        """Close all connections once their calls are answered, after FINISH_S at the latest."""
        for connection in list(self.open):
            connection.finish()
        waits = [asyncio.create_task(connection.gone.wait()) for connection in self.open]
        if waits:
            await asyncio.wait(waits, timeout=FINISH_S)
        for connection in list(self.open):
            connection.close()
        for wait in waits:
            wait.cancel()


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """Parts of the proxy that each connection uses."""

    settings: ProxySettings
    attempt: Callable[[str], Attempt]
    """Returns the attempt of an id, a new one where it is unknown."""
    metrics: ProxyMetrics
    connections: Connections
    upstream: Upstream
    handle_effects: Callable[[Iterable[Effect]], None]
    identified: Callable[[str], asyncio.Task[None] | None]
    """Called with the id of an attempt that connected; returns the reading of its application's record, if it is under
    way."""
    write_note: Callable[[str, Note], None]
    """Writes what changed of an attempt into the journal, before the bytes that depend on it leave."""
    fault: Callable[[FaultKind, str], None]
    """Counts a fault; the application is "" when the fault belongs to none."""
    restore: Callable[[str], None]
    """Called with the id of an attempt over which the proxy's own code failed."""
    spent: Callable[[str, float], None]
    """Called with the id of an attempt and the seconds that a costly message of it took."""


class AmConnection(PairedSocket):
    """The accepted socket of one connection; it owns the relay machine and the ResourceManager's socket."""

    def __init__(self, parts: ConnectionParts) -> None:
        super().__init__()
        self._parts, self._relayed = parts, parts.metrics.relayed
        self.relay = Relay(parts.attempt, parts.settings.max_frame_mb << 20)
        self.peer = self._host = "?"
        self._known = False
        self._unread = 0
        self._rm = RmConnection(parts.upstream, parts.metrics, parts.settings.connect_timeout_s, self.from_rm)
        self._deadline: asyncio.TimerHandle | None = None
        self._finishing = False
        self.gone = asyncio.Event()
        self.pair_with(self._rm)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse a connection beyond the limits, else wait for its first bytes."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._host, port = (str(peer[0]), peer[1]) if peer else ("?", 0)
        self.peer = f"{self._host}:{port}"
        parts = self._parts
        refused = parts.connections.limits.enter(self._host)
        if refused:
            parts.metrics.connections_refused.labels(refused).inc()
            _seldom.warning(f"connection refused, {_SETTINGS[refused]} is reached", peer=self.peer)
            self.abort()
            return
        parts.connections.add(self)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(parts.settings.handshake_timeout_s, self._out_of_time)

    def close_unless_dialed(self) -> None:
        """Close at once if the ResourceManager was not reached yet."""
        if self._rm.transport is None:
            self.abort()

    def _out_of_time(self) -> None:
        if not self.relay.known:
            reason = "upstream" if self._rm.dialing is not None and self._rm.transport is None else "handshake"
            self._parts.metrics.connections_refused.labels(reason).inc()
            _seldom.warning("connection closed, it did not log in within proxy.handshake_timeout_s", peer=self.peer)
            self.close()

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the application master; the ResourceManager is dialed with the first of them."""
        try:
            if self.relay.beat_up(data):
                relayed = self._relayed
                relayed.bytes_to_rm += len(data)
                relayed.passed += 1
                self._rm.write(data)
                return
        except Exception:  # noqa: BLE001 - it is logged, and counted as a fault
            self._failed("am")
            return
        if self not in self._parts.connections.open:
            return
        if self._rm.dialing is None:
            self._rm.dial()
        self._handle("am", self.relay.from_am, data)

    def from_rm(self, data: bytes) -> None:
        """Handle bytes of the ResourceManager."""
        try:
            if self.transport is not None and self.relay.beat_down(data):
                self._relayed.bytes_to_am += len(data)
                self.transport.write(data)
                if self._finishing and not self.relay.outstanding:
                    self.close()
                return
        except Exception:  # noqa: BLE001 - it is logged, and counted as a fault
            self._failed("rm")
            return
        self._handle("rm", self.relay.from_rm, data)

    def _failed(self, side: str) -> None:
        log.exception("connection closed after a fault of the proxy", side=side, peer=self.peer)
        self._faulted(FaultKind.INTERNAL)

    def _handle(self, side: str, handle: Callable[[bytes, float], list[Command]], data: bytes) -> None:
        """Give bytes to the relay; an exception in it closes this connection alone, and is a fault."""
        begun_s = monotonic()
        try:
            self._execute(handle(data, time()))
            self._count_unread()
            took_s = monotonic() - begun_s
            if took_s > COSTLY_S and self.relay.attempt is not None:
                self._parts.spent(self.relay.attempt.id, took_s)
        except RemoteProtocolError as error:
            self._parts.metrics.protocol_errors.labels(side).inc()
            log_line = log.warning if self.relay.attempt is not None else _seldom.warning
            log_line("connection closed, malformed bytes", side=side, peer=self.peer, why=str(error))
            self._faulted(FaultKind.PROTOCOL)
        except Exception:  # noqa: BLE001 - it is logged, and counted as a fault
            self._failed(side)

    def _count_unread(self) -> None:
        """Count the login and the bytes of unfinished frames; too many of them close the connection."""
        relay, limits = self.relay, self._parts.connections.limits
        if not self._known and relay.known:
            self._known = True
            limits.logged_in(self._host)
        before, self._unread = self._unread, relay.kept_bytes
        if self._unread != before and not limits.keeps(before, self._unread):
            self._parts.metrics.connections_refused.labels("memory").inc()
            _seldom.warning(f"connection closed, {_SETTINGS['memory']} is reached", peer=self.peer, bytes=self._unread)
            self.close()

    def _faulted(self, kind: FaultKind) -> None:
        """Count a fault and close; broken bytes before the login are not counted, since anybody may send them."""
        attempt = self.relay.attempt
        if attempt is not None or kind is FaultKind.INTERNAL:
            self._parts.fault(kind, attempt.app_id if attempt is not None else "")
        if attempt is not None and kind is FaultKind.INTERNAL:
            self._parts.restore(attempt.id)
        self.close()

    def _execute(self, commands: list[Command]) -> None:
        relayed = self._relayed
        for command in commands:
            if type(command) is ToRm:
                relayed.bytes_to_rm += len(command.data)
                self._rm.write(command.data)
            elif type(command) is ToAm:
                relayed.bytes_to_am += len(command.data)
                if command.effects:
                    self._parts.handle_effects(command.effects)
                if self.transport is not None:
                    self.transport.write(command.data)
                if self._finishing and not self.relay.outstanding:
                    self.close()
            elif type(command) is Called:
                _count(self._parts.metrics, command)
            elif type(command) is Noted:
                self._parts.write_note(command.attempt_id, command.note)
            else:
                self._execute_other(command)

    def _execute_other(self, command: Command) -> None:
        parts = self._parts
        if isinstance(command, Replaced):
            log.info("connection closed, the application master has another one", peer=self.peer)
            self.close()
        elif isinstance(command, TookOver):
            _took_over(parts, self.peer, command)
        elif isinstance(command, MintedRefused):
            parts.metrics.own_grants.labels("refused").inc()
            log.warning(
                "the ResourceManager takes no containers of our own", attempt=command.attempt_id, why=command.why
            )
        elif isinstance(command, Identified):
            self._hold_until(parts.identified(command.attempt_id))
        elif isinstance(command, PassedThrough):
            _passed_through(parts, self.peer, command)

    def _hold_until(self, reading: asyncio.Task[None] | None) -> None:
        """Let the first calls wait for the record of their application, for LOOKUP_WAIT_S at most."""
        if reading is not None:
            self.hold(_LOOKING_UP)
            asyncio.get_running_loop().call_later(LOOKUP_WAIT_S, self.release, _LOOKING_UP)
            reading.add_done_callback(lambda _: self.release(_LOOKING_UP))

    def finish(self) -> None:
        """Stop reading calls, and close when the open ones are answered."""
        self._finishing = True
        if not self.relay.outstanding:
            self.close()
        else:
            self.hold(_FINISHING)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the upstream with the connection."""
        connections = self._parts.connections
        if self in connections.open:
            connections.limits.leave(self._host, self._known)
            connections.limits.keeps(self._unread, 0)
        connections.discard(self)
        self.gone.set()
        if self._deadline is not None:
            self._deadline.cancel()
        self._rm.close()


def _took_over(parts: ConnectionParts, peer: str, command: TookOver) -> None:
    parts.metrics.resyncs.labels(command.step).inc()
    if command.step == "astray":
        text = "an application registered before is unknown here: its asks pass unchanged"
        log.warning(text, attempt=command.attempt_id, peer=peer)
    else:
        log.info(f"resync of an application: {command.step}", attempt=command.attempt_id)


def _count(metrics: ProxyMetrics, call: Called) -> None:
    if call.method != ALLOCATE:
        metrics.calls.labels(call.method if call.method in (REGISTER, FINISH) else "other").inc()
    elif call.rewritten:
        metrics.relayed.rewritten += 1
    else:
        metrics.relayed.passed += 1


def _passed_through(parts: ConnectionParts, peer: str, command: PassedThrough) -> None:
    if command.encrypted:
        parts.metrics.encrypted_connections.inc()
        parts.connections.encrypted_s = time()
        log.warning(
            "an encrypted connection passes unread: its containers stay guaranteed",
            peer=peer,
            why=command.reason,
            remedy="let the scheduler's port speak hadoop.rpc.protection=authentication (docs/security.md)",
        )
    else:
        log.info("a connection passes unread", peer=peer, why=command.reason)
