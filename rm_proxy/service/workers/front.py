"""Accepts for all workers: a master's connection until its login names the application, REST until the path is known.

Then the worker gets the sockets (sockets.py), and this process has no part in them any more. A worker that is started
anew finds what came meanwhile in its channel.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Sequence
from functools import partial
from time import time
from typing import Final
from urllib.parse import unquote

from hadoop_rpc.errors import RemoteProtocolError
from quicksilver.common.address import Address
from quicksilver.common.http.acceptor import rest_limit
from quicksilver.common.process.dial import dial
from quicksilver.common.process.limits import Seldom, raise_open_files
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.socket_pair import PairedSocket, accepted
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.relay.commands import Command, ToAm, ToRm
from rm_proxy.relay.relay import Relay
from rm_proxy.service.connections.connection_limits import ConnectionLimits, connection_limit
from rm_proxy.service.connections.listener import Listener
from rm_proxy.service.workers import sockets
from rm_proxy.service.workers.channel_writer import ChannelWriter

log = get_logger(__name__)
_seldom = Seldom()
MAX_LOGIN_BYTES: Final = 64 * 1024
"""Of both sides together, before a worker has the connection."""
PEEK_BYTES: Final = 4096
"""Of a REST call's first line."""
PEEK_AGAIN_S: Final = 0.02
REST_WAIT_S: Final = 30.0
"""Time for the first line of a REST call."""
_DIALING: Final = "the ResourceManager is being dialed"
_PASSING_ON: Final = "its worker gets it"
_WORKER: Final = re.compile(rb"[?&]worker=(\d{1,4})")
_NODE: Final = re.compile(rb"/v1/nodes/([^/?\s]+)")
_APP: Final = re.compile(rb"\b(?:application|appattempt|container(?:_e\d+)?)_(\d+)_(\d+)")


def worker_of_call(line: bytes, spread: Spread) -> int:
    """Return the worker of a REST call by its first line: `worker=N` of its query, its node, its application, else 0.

    Reports come to their nodes' workers in this way; so do calls about a node or an application.
    """
    named, node, app = _WORKER.search(line), _NODE.search(line), _APP.search(line)
    if named is not None:
        return int(named[1]) % spread.count
    if node is not None:
        return spread.of_node(unquote(node[1].decode("ascii", "replace")))
    return spread.of_app(f"application_{app[1].decode()}_{app[2].decode()}") if app is not None else 0


class LoginNamed(Exception):
    """The ResourceManager confirmed whose login it is."""

    def __init__(self, attempt_id: str) -> None:
        super().__init__(attempt_id)
        self.attempt_id = attempt_id


def _named(attempt_id: str) -> Attempt:
    raise LoginNamed(attempt_id)


class _RmSide(PairedSocket):
    """The ResourceManager's side of a login."""

    def __init__(self, receive: Callable[[bytes], None], connected: Callable[[], None]) -> None:
        super().__init__()
        self._receive, self._connected = receive, connected
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the bytes that waited."""
        super().connection_made(transport)
        for data in self._unsent:
            self.write(data)
        self._unsent.clear()
        self._connected()

    def data_received(self, data: bytes) -> None:
        """Hand bytes of the ResourceManager over."""
        self._receive(data)

    def write(self, data: bytes) -> None:
        """Send bytes, later where it is not connected."""
        if self.transport is None:
            self._unsent.append(data)
        else:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the master's socket with this one."""
        self._peer.close()


class LoginConnection(PairedSocket):
    """A master's connection up to the end of its login."""

    def __init__(self, front: Front) -> None:
        super().__init__()
        self._front = front
        self._relay = Relay(_named, front.settings.max_frame_mb << 20)
        self._rm = _RmSide(partial(self._handle, False), self._dialed)
        self._chunks: list[tuple[bool, bytes]] = []
        self._relayed = 0
        """How many of them were passed on to the other side."""
        self._worker: int | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._host = ""
        """"" while it is not counted."""
        self.pair_with(self._rm)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse a connection beyond the limits, else wait for its first bytes."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else "?"
        if reason := self._front.limits.enter(host):
            _seldom.warning("connection refused: too many log in", reason=reason, peer=host)
            self.abort()
            return
        self._host = host
        seconds = self._front.settings.handshake_timeout_s
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.close)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the master; the ResourceManager is dialed with the first of them."""
        if self._dialing is None:
            self._dialing = asyncio.get_running_loop().create_task(self._dial())
        self._handle(True, data)

    async def _dial(self) -> None:
        upstream, loop = self._front.upstream, asyncio.get_running_loop()
        try:
            await dial(
                partial(loop.create_connection, lambda: self._rm, upstream.host, upstream.port),
                timeout_s=self._front.settings.connect_timeout_s,
                refused=self._front.refused,
                has_client=lambda: not self.is_closing,
            )
        except OSError as error:
            _seldom.warning("the ResourceManager cannot be reached", why=str(error))
            self.close()

    def _dialed(self) -> None:
        self.release(_DIALING)
        if self.is_closing:
            self._rm.abort()
        elif self._worker is not None:
            self._pass_on(self._worker)

    def _handle(self, from_master: bool, data: bytes) -> None:
        self._chunks.append((from_master, data))
        if self._worker is not None:
            return  # it came before the ResourceManager was dialed, and is its worker's
        self._relayed = len(self._chunks) - 1
        handle = self._relay.from_am if from_master else self._relay.from_rm
        try:
            commands = handle(data, time())
        except LoginNamed as login:
            self._pass_on(self._front.spread.of_attempt(login.attempt_id))
            return
        except RemoteProtocolError as error:
            _seldom.warning("connection closed, malformed bytes before the login", peer=self._host, why=str(error))
            self.close()
            return
        if self._relay.opaque:
            self._pass_on(0)
        elif sum(len(chunk) for _, chunk in self._chunks) > MAX_LOGIN_BYTES:
            _seldom.warning("connection closed, its login is too long", peer=self._host)
            self.close()
        else:
            self._execute(commands)

    def _execute(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, ToAm):
                self.write(command.data)
            elif isinstance(command, ToRm):
                self._rm.write(command.data)
                if self._rm.transport is None:
                    self.hold(_DIALING)

    def _pass_on(self, worker: int) -> None:
        """Send the sockets to a worker; it handles what was not passed on to the other side."""
        self._worker = worker
        self.hold(_PASSING_ON)
        self._rm.hold(_PASSING_ON)
        to_master, to_rm = self.transport, self._rm.transport
        if to_master is None or to_rm is None:
            return  # once the ResourceManager is dialed
        if to_master.get_write_buffer_size() or to_rm.get_write_buffer_size():
            _seldom.warning("connection closed: its peer does not read", peer=self._host)
            self.close()
            return
        ends = [transport.get_extra_info("socket").fileno() for transport in (to_master, to_rm)]
        self._front.pass_on(worker, sockets.MasterLogin(tuple(self._chunks), self._relayed), ends)
        self.abort()
        self._rm.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other side with it."""
        if self._host:
            self._front.limits.leave(self._host, logged_in=False)
        if self._deadline is not None:
            self._deadline.cancel()
        self._rm.close()


class Front:
    """The process that accepts; `channels`: its end of the channel to each worker."""

    def __init__(self, settings: ProxySettings, upstream: Address, channels: Sequence[socket.socket]) -> None:
        self.settings, self.upstream = settings, upstream
        self.spread = Spread(0, len(channels))
        self.limits = ConnectionLimits(connection_limit(settings), settings.max_logins_per_host, 0)
        self._channels = [ChannelWriter(end) for end in channels]
        self._listener: Listener | None = None
        self._is_open = False
        self._tasks: list[asyncio.Task[None]] = []
        self._peeking: dict[socket.socket, asyncio.TimerHandle] = {}
        """REST connections of which nothing is known, and when they are closed."""
        allowed = raise_open_files(settings.rest_connections, "proxy.rest_connections")
        self._rest_limit = rest_limit(settings.rest_connections, allowed)

    async def start(self, listen: socket.socket, rest: socket.socket) -> None:
        """Accept on two bound sockets."""
        loop, settings = asyncio.get_running_loop(), self.settings
        for worker, channel in enumerate(self._channels):
            loop.add_reader(channel.end, self._read, worker, channel.end)
        self._tasks.append(loop.create_task(self._accept_rest(rest), name="rest-accept"))
        self._listener = Listener(
            listen,
            self.upstream,
            lambda: LoginConnection(self),
            self._changed,
            every_s=settings.rm_probe_s,
            timeout_s=settings.connect_timeout_s,
        )
        await self._listener.start()

    def refused(self, _error: OSError) -> None:
        """Accept no masters: the ResourceManager has just refused a connection."""
        if self._listener is not None:
            self._listener.refused()

    def pass_on(self, worker: int, message: sockets.Message, ends: Sequence[int]) -> None:
        """Send sockets to a worker; where too many wait for it they are closed, and their clients try again."""
        try:
            self._channels[worker].send(message, ends)
        except OSError as error:
            _seldom.warning("connection closed: its worker takes none", worker=worker, why=str(error))

    def close(self) -> None:
        """Accept no more."""
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        for channel in self._channels:
            asyncio.get_running_loop().remove_reader(channel.end)
            channel.close()
        for sock in list(self._peeking):
            self._forget(sock)
            sock.close()

    def _changed(self, is_open: bool) -> None:
        self._is_open = is_open
        for worker in range(len(self._channels)):
            self.pass_on(worker, sockets.RmState(is_open), ())

    def _read(self, worker: int, end: socket.socket) -> None:
        for message, ends in sockets.receive(end):
            for sock in ends:
                sock.close()  # workers send none
            if isinstance(message, sockets.StateWanted):
                self.pass_on(worker, sockets.RmState(self._is_open), ())

    # REST

    async def _accept_rest(self, rest: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async for sock in accepted(rest):
            if len(self._peeking) >= self._rest_limit:
                _seldom.warning("REST connection closed: too many have sent nothing", limit=self._rest_limit)
                sock.close()
                continue
            sock.setblocking(False)
            self._peeking[sock] = loop.call_later(REST_WAIT_S, self._end, sock)
            self._watch(sock)

    def _watch(self, sock: socket.socket) -> None:
        if sock in self._peeking:
            asyncio.get_running_loop().add_reader(sock, self._peek, sock)

    def _peek(self, sock: socket.socket) -> None:
        """Look at the first line of a call; what was seen stays to be read by its worker."""
        try:
            data = sock.recv(PEEK_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        line, end_of_line, _ = data.partition(b"\r\n")
        if data and not end_of_line and len(data) < PEEK_BYTES:
            loop = asyncio.get_running_loop()
            loop.remove_reader(sock)
            waited_s = REST_WAIT_S - (self._peeking[sock].when() - loop.time())
            loop.call_later(max(PEEK_AGAIN_S, waited_s / 2), self._watch, sock)  # one that is slow costs little
            return
        self._forget(sock)
        if data:
            self.pass_on(worker_of_call(line, self.spread), sockets.RestSocket(), [sock.fileno()])
        sock.close()

    def _end(self, sock: socket.socket) -> None:
        if sock in self._peeking:
            self._forget(sock)
            sock.close()

    def _forget(self, sock: socket.socket) -> None:
        self._peeking.pop(sock).cancel()
        asyncio.get_running_loop().remove_reader(sock)
