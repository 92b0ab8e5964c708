"""The way in of application masters: the NodeManager is reached for a connection before any of it is read.

Until then its bytes stay in the kernel. Where the NodeManager does not answer at once the socket is kept besides
(quicksilver/common/process/fdstore.py), so that the next life begins with it as if it came just now: what was read and
not passed on would be lost with this one, and Hadoop's clients do not repeat a handshake (see
`sidecar.connections.handshake_handover`).
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from quicksilver.common.address import Address
from quicksilver.common.process import fdstore
from quicksilver.common.process.dial import dial
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger
from sidecar.config import SidecarSettings
from sidecar.connections.connection import ClientSide, Link
from sidecar.connections.handshake_handover import Handshakes, forget
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import ClientClosed, GateEvent, UpstreamClosed
from sidecar.gate.gate import Gate
from sidecar.metrics import SidecarMetrics
from sidecar.node.node import Node

log = get_logger(__name__)
_seldom = Seldom()
_PREFIX: Final = "sidecar-early-"
_MB: Final = 2**20
_SHORT_OF: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_SHORT_S: Final = 1.0
"""How long nothing is accepted when the process or the machine is short of descriptors or memory."""
_GOING: Final = {7, 8}
"""TCP_CLOSE and TCP_CLOSE_WAIT (Linux, net/tcp_states.h), first byte of TCP_INFO: the peer has hung up."""


class Owner(Protocol):
    """Who owns the connections that are accepted: `sidecar.service.dispatcher.Runtime`."""

    settings: SidecarSettings
    metrics: SidecarMetrics
    upstream: Address
    node: Node
    meta: ServicesMeta
    links: set[Link]
    handshakes: Handshakes
    stopping: bool

    def tell_gate(self, link: Link, event: GateEvent) -> None:
        """Hand an event to a gate."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it ends or the sidecar does."""

    async def reach(self, link: Link) -> None:
        """Connect a link to the NodeManager. Raises OSError."""


class Entrance:
    """Accepts connections of one runtime."""

    def __init__(self, runtime: Owner) -> None:
        self._runtime = runtime
        self._numbers = itertools.count()
        self._refused = False

    async def serve(self, listener: socket.socket) -> None:
        """Accept until cancelled; the listener is closed then."""
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    sock, _ = await loop.sock_accept(listener)
                except OSError as error:  # who came is gone already, or nobody can be let in now
                    if error.errno in _SHORT_OF:
                        _seldom.warning("nothing is accepted for a moment", why=str(error))
                        await asyncio.sleep(_SHORT_S)
                    continue
                self.enter(sock)

    def take_over(self) -> None:
        """Begin anew with those for which the life before had not reached the NodeManager."""
        for name in [name for name in fdstore.names() if name.startswith(_PREFIX)]:
            for sock in fdstore.take(name):
                self.enter(sock, name)

    def enter(self, sock: socket.socket, kept_as: str = "") -> None:
        """Let a connection in: connect to the NodeManager for it. kept_as: its name at the keeper, if it has one."""
        try:
            link = self.admit(str(Address(*sock.getpeername()[:2])))
        except OSError:
            link = None  # it was reset before it was accepted
        if link is None:
            sock.close()
            forget(kept_as)
            return
        link.early = sock
        self._runtime.spawn(self._connect(link, sock, kept_as))

    def admit(self, peer: str) -> Link | None:
        """Return a link for a new connection, with a gate of its own; None when there are too many."""
        runtime, settings, metrics = self._runtime, self._runtime.settings, self._runtime.metrics
        clients = sum(1 for link in runtime.links if link.gate.client_open)
        if runtime.stopping or clients >= settings.max_connections:
            metrics.connections_refused.labels("limit").inc()
            _seldom.warning("connection closed: too many", peer=peer, limit=settings.max_connections)
            return None
        gate = Gate(runtime.node, runtime.meta, settings.max_frame_mb * _MB)
        link = Link(gate, runtime.tell_gate, settings.buffer_mb * _MB)
        link.peer, link.on_connected = peer, runtime.handshakes.begin
        runtime.links.add(link)
        metrics.connections_opened.inc()
        loop = asyncio.get_running_loop()
        link.handshake_timer = loop.call_later(settings.handshake_timeout_s, self._handshake_late, link)
        return link

    async def _connect(self, link: Link, sock: socket.socket, kept_as: str) -> None:
        """Reach the NodeManager, then read the client."""
        runtime, name = self._runtime, kept_as

        def refused(error: OSError) -> None:
            nonlocal name
            self._nm_refused(error)
            name = name or self._keep(sock)

        try:
            timeout_s = runtime.settings.connect_timeout_s
            wanted = await dial(
                lambda: runtime.reach(link),
                timeout_s=timeout_s,
                refused=refused,
                wanted=lambda: link.early is not None and not _hung_up(sock),
            )
            if wanted and link.early is not None:
                self._refused = False
                link.early = None
                await asyncio.get_running_loop().connect_accepted_socket(lambda: ClientSide(link), sock)
                return
        except OSError as error:
            runtime.metrics.connections_refused.labels("upstream").inc()
            self._nm_refused(error)
        finally:
            if not runtime.stopping:  # at the end the next process takes what is kept
                forget(name)
        self._give_up(link)

    def _give_up(self, link: Link) -> None:
        """Close a link whose client was never read."""
        link.abort()
        self._runtime.tell_gate(link, UpstreamClosed())
        self._runtime.tell_gate(link, ClientClosed())

    def _keep(self, sock: socket.socket) -> str:
        """Have a client's socket kept; returns its name, "" where it is not."""
        name = f"{_PREFIX}{os.getpid()}-{next(self._numbers)}"
        try:
            return name if fdstore.store(name, sock) else ""
        except OSError as error:
            log.warning("a connection is not kept, should the sidecar die now", why=str(error))
            return ""

    def _nm_refused(self, error: OSError) -> None:
        if not self._refused:
            log.warning("the NodeManager does not answer", upstream=str(self._runtime.upstream), why=str(error))
        self._refused = True

    def _handshake_late(self, link: Link) -> None:
        link.handshake_timer = None
        if not link.gate.opened and link.gate.client_open:
            self._runtime.metrics.connections_refused.labels("handshake").inc()
            _seldom.warning("connection closed: no handshake in time", peer=link.peer)
            link.abort()


def _hung_up(sock: socket.socket) -> bool:
    """Tell whether a client that is not read has gone."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _GOING
    except OSError:
        return True
