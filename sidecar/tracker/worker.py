"""The worker of the resource-tracker relay: sockets around `TrackerRelay`, and log lines for what it tells."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process.logs import get_logger
from sidecar.gate.events import Garbage, PassesThrough
from sidecar.tracker.config import Ends, TrackerPlace, TrackerSettings
from sidecar.tracker.relay import FromNode, FromRm, Registered, Resized, ToNode, ToRm, TrackerCommand, TrackerRelay

log = get_logger(__name__)
_CHUNK_BYTES: Final = 1 << 16
_MB: Final = 2**20
_SIGN_S: Final = 1.0


class TrackerWorker:
    """Relays the NodeManager's connections until SIGTERM, or until the keeper is gone."""

    def __init__(self, settings: TrackerSettings, place: TrackerPlace) -> None:
        self.settings, self.place = settings, place
        self._open: set[asyncio.Task[None]] = set()
        self._refused: set[Address] = set()
        """ResourceManagers that did not answer when they were last tried."""
        self._stop = asyncio.Event()

    async def run(self, sockets: Sequence[socket.socket], keeper: socket.socket) -> None:
        """Serve the listening sockets, one for each of `place.ends`; `keeper`: where signs of life go."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        keeper.setblocking(False)
        loop.add_reader(keeper, self._stop.set)  # it never says anything: this is its end
        servers = [await self._listen(ends, sock) for ends, sock in zip(self.place.ends, sockets, strict=True)]
        alive = asyncio.create_task(_show_life(keeper))
        await self._stop.wait()
        alive.cancel()
        loop.remove_reader(keeper)
        for server in servers:
            server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(alive, *self._open, return_exceptions=True)

    async def _listen(self, ends: Ends, sock: socket.socket) -> asyncio.Server:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = str(Address(*(writer.get_extra_info("peername") or ("unknown", 0))[:2]))
            if self._stop.is_set() or len(self._open) >= self.settings.max_connections:
                log.warning("connection closed: too many", peer=peer, limit=self.settings.max_connections)
                writer.transport.abort()
                return
            task = asyncio.ensure_future(self._serve(ends, peer, reader, writer))
            self._open.add(task)
            task.add_done_callback(self._done)

        return await asyncio.start_server(accepted, sock=sock, limit=_CHUNK_BYTES)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a connection's task failed", exc_info=task.exception())

    async def _serve(self, ends: Ends, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection; when the ResourceManager does not answer it is closed, as if nobody listened."""
        try:
            try:
                async with asyncio.timeout(self.settings.connect_timeout_s):
                    rm_reader, rm_writer = await asyncio.open_connection(*ends.upstream, limit=_CHUNK_BYTES)
            except (OSError, TimeoutError) as error:
                if ends.upstream not in self._refused:
                    log.warning("the ResourceManager does not answer", upstream=str(ends.upstream), why=str(error))
                self._refused.add(ends.upstream)
                return
            self._refused.discard(ends.upstream)
            relay = TrackerRelay(self.place.extra, self.settings.mark_guaranteed, self.settings.max_frame_mb * _MB)
            link = _Link(relay, peer, writer, rm_writer, self.settings)
            await link.run(reader, rm_reader)
        finally:
            writer.close()


class _Link:
    """One relayed connection."""

    def __init__(
        self,
        relay: TrackerRelay,
        peer: str,
        node: asyncio.StreamWriter,
        rm: asyncio.StreamWriter,
        settings: TrackerSettings,
    ) -> None:
        self.relay, self.node, self.rm = relay, node, rm
        self._handshake_s = settings.handshake_timeout_s
        self._log = log.bind(peer=peer)
        self._broken = False
        for writer in (node, rm):
            writer.transport.set_write_buffer_limits(high=settings.buffer_mb * _MB)

    async def run(self, node_reader: asyncio.StreamReader, rm_reader: asyncio.StreamReader) -> None:
        """Relay until one side closes."""
        timer = asyncio.get_running_loop().call_later(self._handshake_s, self._handshake_late)
        pumps = [
            asyncio.create_task(self._pump(node_reader, FromNode, self.rm)),
            asyncio.create_task(self._pump(rm_reader, FromRm, self.node)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            for pump in pumps:
                pump.cancel()
            ended = await asyncio.gather(*pumps, return_exceptions=True)
            self.rm.close()
        for error in ended:
            if isinstance(error, OSError):
                self._log.debug("connection reset", why=str(error))
            elif isinstance(error, Exception):
                raise error

    async def _pump(
        self, reader: asyncio.StreamReader, event: type[FromNode] | type[FromRm], target: asyncio.StreamWriter
    ) -> None:
        while not self._broken and (data := await reader.read(_CHUNK_BYTES)):
            for command in self.relay.handle(event(data)):
                self._obey(command)
            await target.drain()

    def _handshake_late(self) -> None:
        if not self.relay.opened:
            self._log.warning("connection closed: no handshake in time")
            self.node.transport.abort()

    def _obey(self, command: TrackerCommand) -> None:
        match command:
            case ToNode():
                self.node.write(command.data)
            case ToRm():
                self.rm.write(command.data)
            case Garbage():
                self._broken = True
                self._log.warning(f"connection closed: the {command.side} broke the protocol", why=command.text)
            case PassesThrough():
                if command.encrypted:
                    text = "a connection passes unread: the ResourceManager plans with all that the NodeManager has"
                else:
                    text = "a connection passes unread"
                self._log.warning(text, why=command.reason)
            case Registered() | Resized():
                self._note(command)

    def _note(self, told: Registered | Resized) -> None:
        sizes = {"nodemanager": str(told.nodemanager), "resourcemanager": str(told.resourcemanager)}
        if isinstance(told, Resized):
            self._log.info("the ResourceManager resized the node", **sizes)
            if told.held:
                self._log.warning("the node keeps what its containers hold until it is resized again", **sizes)
            return
        self._log.info("a NodeManager registers", node=told.node_id, **sizes)
        if told.clamped:
            self._log.error("the NodeManager has no more than is hidden: correct its size or `tracker:`", **sizes)


async def _show_life(keeper: socket.socket) -> None:
    while True:
        with suppress(BlockingIOError):  # a keeper that is stopped reads what is there when it goes on
            keeper.send(b".")
        await asyncio.sleep(_SIGN_S)
