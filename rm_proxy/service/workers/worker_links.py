"""Sockets between the workers of a proxy: news in batches, at most one in EXCHANGE_S.

Both ends are processes of this proxy, forked by its supervisor, and nobody else has the sockets: so messages are
pickled.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from quicksilver.common.process.logs import get_logger
from rm_proxy.coordinator.workers.news import News, ViewFields
from rm_proxy.minting.key_ring import KeyReport
from rm_proxy.service.workers.yarn_readings import Reading

EXCHANGE_S: Final = 0.01
"""Time between two batches (own): how old the picture of what other workers do may be."""
LATE_S: Final = 0.05
"""How long news may wait for which nobody waits (own): of places that were given up, of containers that started."""
UNREAD_BYTES: Final = 64 << 20
"""Bytes that wait for another worker to read them; with more the link is closed, and that worker is started anew."""
_LENGTH: Final = struct.Struct("!I")
PassedFrame = tuple[str, int, bytes, ViewFields]
"""Node, kind and body of a frame as it came, and the node's view after it."""
log = get_logger(__name__)


@dataclass(slots=True)
class Broadcast:
    """A batch for all other workers."""

    news: News = field(default_factory=News)
    reports: list[PassedFrame] = field(default_factory=list)
    """Of nodes that report here."""
    cut: list[str] = field(default_factory=list)
    """Nodes that report here, whose connections were cut."""
    readings: list[Reading] = field(default_factory=list)
    """Of YARN's REST."""
    keys: list[KeyReport] = field(default_factory=list, repr=False)
    """Of nodes that report here; nothing but these sockets carries them from process to process."""
    orders: list[tuple[str, ...]] = field(default_factory=list)
    """Of an admin, for all workers: a name and its arguments."""

    def __bool__(self) -> bool:
        return bool(self.news or self.reports or self.cut or self.readings or self.keys or self.orders)


@dataclass(slots=True)
class Letter:
    """A batch for one worker, about nodes that report to it."""

    grants: list[tuple[str, bytes]] = field(default_factory=list)
    """Grants for sidecars, as JSON, by node."""
    orders: list[tuple[str, bytes]] = field(default_factory=list)
    """What sidecars have to do, as an `Ack` in JSON, by node."""
    acks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By node: boot of its sidecar, and up to which number its events are settled here."""
    again: set[str] = field(default_factory=set)
    """Nodes whose reports are to be passed on whole."""

    def __bool__(self) -> bool:
        return bool(self.grants or self.orders or self.acks or self.again)


Batch = Broadcast | Letter


class WorkerLink(asyncio.Protocol):
    """The socket to one other worker."""

    def __init__(self, worker: int, received: Callable[[int, Batch], None], over: Callable[[WorkerLink], None]) -> None:
        self.worker, self._received, self._over = worker, received, over
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand the batches over that have come whole."""
        unread, at = self._unread, 0
        unread += data
        while len(unread) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(unread, at)[0]
            if end > len(unread):
                break
            batch = pickle.loads(unread[at + _LENGTH.size : end])
            at = end
            self._received(self.worker, batch)
        del unread[:at]

    def write(self, data: bytes) -> None:
        """Send a batch; close where the other worker reads none."""
        transport = self._transport
        if transport is None:
            return
        transport.write(data)
        if transport.get_write_buffer_size() > UNREAD_BYTES:
            log.error("another worker reads nothing: it is cut off", worker=self.worker)
            self.close()

    def close(self) -> None:
        """Close at once."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._over(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the other worker is gone."""
        if self._transport is not None:
            self._transport = None
            self._over(self)


class Links:
    """The links to all other workers; used in the event loop.

    received: gets each batch and its worker. begun: called with a worker whose link was opened, before anything is
    sent; returns what it has to get first. fill: adds what is to be sent when a batch leaves. lost: called with a
    worker whose link was closed.
    """

    def __init__(
        self,
        received: Callable[[int, Batch], None],
        begun: Callable[[int], Broadcast],
        fill: Callable[[Broadcast], None],
        lost: Callable[[int], None],
    ) -> None:
        self._received, self._begun, self._fill, self._lost = received, begun, fill, lost
        self._open: dict[int, WorkerLink] = {}
        self._broadcast = Broadcast()
        self._letters: dict[int, Letter] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._is_soon = False
        """Whether it leaves as soon as it may."""
        self._sent_s = 0.0

    @property
    def open(self) -> Mapping[int, WorkerLink]:
        """The workers that are linked."""
        return self._open

    async def attach(self, worker: int, sock: socket.socket) -> None:
        """Open the link to a worker, in place of the one to the process before it."""
        self.send()  # what the others get now is part of what the new one gets first
        before = self._open.pop(worker, None)
        if before is not None:
            before.close()
        link = WorkerLink(worker, self._received, self._closed)
        sock.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: link, sock)
        self._letters.pop(worker, None)
        self.send()
        link.write(_packed(self._begun(worker)))
        self._open[worker] = link

    def broadcast(self, urgent: bool = True) -> Broadcast:
        """Return the batch for all others that leaves next."""
        self.soon(urgent)
        return self._broadcast

    def letter(self, worker: int, urgent: bool = True) -> Letter:
        """Return the batch for one worker that leaves next."""
        self.soon(urgent)
        return self._letters.setdefault(worker, Letter())

    def soon(self, urgent: bool = True) -> None:
        """Send EXCHANGE_S after the last batch, at once where that is over; what is not urgent waits for LATE_S."""
        if self._is_soon or (self._flush is not None and not urgent):
            return
        loop = asyncio.get_running_loop()
        if self._flush is not None:
            self._flush.cancel()
        self._is_soon = urgent
        at_s = max(loop.time(), self._sent_s + EXCHANGE_S) if urgent else loop.time() + LATE_S
        self._flush = loop.call_at(at_s, self.send)

    def send(self) -> None:
        """Send what there is now."""
        flush, self._flush, self._is_soon = self._flush, None, False
        if flush is not None:
            flush.cancel()
        self._sent_s = asyncio.get_running_loop().time()
        broadcast, self._broadcast = self._broadcast, Broadcast()
        self._fill(broadcast)
        letters, self._letters = self._letters, {}
        data = _packed(broadcast) if broadcast and self._open else b""
        for worker, link in list(self._open.items()):
            letter = letters.get(worker)
            link.write(data + _packed(letter) if letter else data)

    def close(self) -> None:
        """Send what there is, and close."""
        self.send()
        if self._flush is not None:
            self._flush.cancel()
        links, self._open = self._open, {}
        for link in links.values():
            link.close()

    def _closed(self, link: WorkerLink) -> None:
        if self._open.get(link.worker) is link:
            del self._open[link.worker]
            self._lost(link.worker)


def _packed(batch: Batch) -> bytes:
    data = pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data
