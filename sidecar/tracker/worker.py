"""The worker of the resource-tracker relay: sockets around `TrackerRelay`, and log lines for its events."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process.background_tasks import BackgroundTasks
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.socket_pair import PairedSocket, SocketPair, accepted, settle
from sidecar.gate.events import Garbage, PassesThrough
from sidecar.tracker.config import Ends, TrackerPlace, TrackerSettings
from sidecar.tracker.relay import (
    FromNode,
    FromRm,
    NodeKeysSeen,
    NodeResized,
    Registered,
    ToNode,
    ToResourceTracker,
    TrackerCommand,
    TrackerRelay,
)
from sidecar.tracker.seen_keys import SeenKeys

log = get_logger(__name__)
_MB: Final = 2**20
_SIGN_S: Final = 1.0


class TrackerWorker:
    """Relays the NodeManager's connections until SIGTERM, or until the supervisor is gone."""

    def __init__(self, settings: TrackerSettings, place: TrackerPlace, keys: SeenKeys | None = None) -> None:
        """Prepare. keys: sends master keys to the proxies; None where they are not wanted."""
        self.settings, self.place, self.keys = settings, place, keys
        self._open = BackgroundTasks("a connection's task failed")
        self._refused: set[Address] = set()
        """ResourceManagers that did not answer the last try."""
        self._stop = asyncio.Event()

    async def run(self, sockets: Sequence[socket.socket], keeper: socket.socket) -> None:
        """Serve the listening sockets, one for each of `place.ends`; `keeper`: the socket for signs of life."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        keeper.setblocking(False)
        loop.add_reader(keeper, self._stop.set)  # the supervisor sends nothing: readable means that it has ended
        jobs = [self._listen(ends, sock) for ends, sock in zip(self.place.ends, sockets, strict=True)]
        reports = BackgroundTasks("the node's master keys are not reported any more")
        if self.keys is not None:
            reports.spawn(self.keys.run())
        tasks = [asyncio.create_task(job) for job in (*jobs, _show_life(keeper))]
        await self._stop.wait()
        for task in tasks:
            task.cancel()
        loop.remove_reader(keeper)
        await self._open.cancel()
        await reports.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, ends: Ends, listener: socket.socket) -> None:
        listener.setblocking(False)
        async for sock in accepted(listener):
            try:
                peer = str(Address(*sock.getpeername()[:2]))
            except OSError:  # it was reset before it was accepted
                sock.close()
                continue
            if len(self._open) >= self.settings.max_connections:
                log.warning("connection closed: too many", peer=peer, limit=self.settings.max_connections)
                sock.close()
            else:
                self._open.spawn(self._serve(ends, peer, sock))

    async def _serve(self, ends: Ends, peer: str, sock: socket.socket) -> None:
        """Relay one connection; when the ResourceManager does not answer it is closed, as if nobody listened."""
        settings, keys = self.settings, self.keys
        machine = TrackerRelay(
            self.place.extra, settings.mark_guaranteed, settings.max_frame_mb * _MB, keys=keys is not None
        )
        connection = TrackerConnection(machine, peer, settings, keys)
        if not await self._dial(connection.pair, ends.upstream, sock):
            return
        try:
            await connection.run(sock)
        except OSError as error:
            log.debug("connection reset", peer=peer, why=str(error))

    async def _dial(self, pair: SocketPair, upstream: Address, sock: socket.socket) -> bool:
        """Connect to the ResourceManager; close the NodeManager's socket and return False when it does not answer."""
        connected = False
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                await pair.dial(*upstream)
            connected = True
            self._refused.discard(upstream)
        except (OSError, TimeoutError) as error:
            if upstream not in self._refused:
                log.warning("the ResourceManager does not answer", upstream=str(upstream), why=str(error))
            self._refused.add(upstream)
        finally:
            if not connected:
                sock.close()
        return connected


class TrackerConnection:
    """One relayed connection: the machine with its two sockets. Create it in a running loop."""

    def __init__(self, relay: TrackerRelay, peer: str, settings: TrackerSettings, keys: SeenKeys | None = None) -> None:
        ended = asyncio.get_running_loop().create_future()
        buffer_bytes = settings.buffer_mb * _MB
        self.relay, self._keys = relay, keys
        self.node = _Side(self.handle, FromNode, ended, buffer_bytes)
        self.rm = _Side(self.handle, FromRm, ended, buffer_bytes)
        self.pair = SocketPair(self.node, self.rm, ended)
        self._ended, self._handshake_s = ended, settings.handshake_timeout_s
        self._log = log.bind(peer=peer)

    async def run(self, sock: socket.socket) -> None:
        """Relay until one side closes. Raises the error that broke the connection."""
        timer = asyncio.get_running_loop().call_later(self._handshake_s, self._handshake_late)
        try:
            await self.pair.relay(sock)
        finally:
            timer.cancel()

    def handle(self, event: FromNode | FromRm) -> None:
        """Pass bytes to the machine and execute its commands."""
        if self._ended.done():
            return
        try:
            for command in self.relay.handle(event):
                self._execute(command)
        except Exception as error:  # noqa: BLE001 - it ends this connection, and the task that waits for it raises it
            settle(self._ended, error)

    def _handshake_late(self) -> None:
        if not self.relay.opened:
            self._log.warning("connection closed: no handshake in time")
            self.node.abort()

    def _execute(self, command: TrackerCommand) -> None:
        match command:
            case ToNode():
                self.node.write(command.data)
            case ToResourceTracker():
                self.rm.write(command.data)
            case Garbage():
                self._log.warning(f"connection closed: the {command.side} broke the protocol", why=command.text)
                settle(self._ended)
            case PassesThrough():
                if command.encrypted:
                    text = "a connection passes unread: the ResourceManager plans with all that the NodeManager has"
                else:
                    text = "a connection passes unread"
                self._log.warning(text, why=command.reason)
            case NodeKeysSeen():
                if self._keys is not None:
                    self._keys.report(command)
            case Registered() | NodeResized():
                self._log_size(command)

    def _log_size(self, event: Registered | NodeResized) -> None:
        sizes = {"nodemanager": str(event.nodemanager), "resourcemanager": str(event.resourcemanager)}
        if isinstance(event, NodeResized):
            self._log.info("the ResourceManager resized the node", **sizes)
            if event.holds_more:
                self._log.warning("the node keeps what its containers hold until it is resized again", **sizes)
            return
        self._log.info("a NodeManager registers", node=event.node_id, **sizes)
        if event.clamped:
            text = "`tracker:` hides more than this NodeManager has; lower it, or raise the NodeManager's size"
            self._log.error(text, **sizes)


class _Side(PairedSocket):
    """One socket of a relayed connection; its end is the connection's."""

    def __init__(
        self,
        handle: Callable[[FromNode | FromRm], None],
        event: type[FromNode] | type[FromRm],
        ended: asyncio.Future[None],
        buffer_bytes: int,
    ) -> None:
        super().__init__(buffer_bytes)
        self._handle, self._event, self._ended = handle, event, ended

    def data_received(self, data: bytes) -> None:
        self._handle(self._event(data))

    def connection_lost(self, exc: Exception | None) -> None:
        settle(self._ended, exc)


async def _show_life(keeper: socket.socket) -> None:
    while True:
        with suppress(BlockingIOError):  # a stopped supervisor reads the socket when it is continued
            keeper.send(b".")
        await asyncio.sleep(_SIGN_S)
