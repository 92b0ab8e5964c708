"""Two sockets that belong together, each read no faster than the other one takes: the base of every relay here.

A relay derives its two sockets from `PairedSocket` and says in `data_received` what becomes of the bytes: a machine's
commands (the proxy's connections, the sidecar's gates, the tracker relay), or the same bytes (`Forwarder`). Back
pressure is the base class's: while a socket's write buffer is full the other one is not read, and `hold` and `release`
pause reading for reasons of the relay's own.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from typing import Final, cast

from quicksilver.common.process.limits import Seldom

_seldom = Seldom()
_SHORT_OF: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_SHORT_S: Final = 1.0
"""Pause of accepting when the process or the machine is short of descriptors or memory."""
_BUFFER: Final = "the other socket's buffer is full"


async def accepted(listener: socket.socket) -> AsyncIterator[socket.socket]:
    """Yield the connections of a listening socket, unread; the listener is closed at the end."""
    loop = asyncio.get_running_loop()
    with listener:
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:  # the peer has gone already, or no connection can be accepted now
                if error.errno in _SHORT_OF:
                    _seldom.warning("nothing is accepted for a moment", why=str(error))
                    await asyncio.sleep(_SHORT_S)
                continue
            yield sock


class PairedSocket(asyncio.Protocol):
    """One socket of a pair; `buffer_bytes`: when its write buffer counts as full, None for the loop's default."""

    def __init__(self, buffer_bytes: int | None = None) -> None:
        self.transport: asyncio.Transport | None = None
        """None until it is connected."""
        self._buffer_bytes = buffer_bytes
        self._peer: PairedSocket = self
        self.holds: set[str] = set()
        """Why it is not read now."""

    def pair_with(self, peer: PairedSocket) -> None:
        """Make this socket and `peer` a pair."""
        self._peer, peer._peer = peer, self

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or about to be; False before it is connected."""
        return self.transport is not None and self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; nothing is read while there is a reason against it."""
        self.transport = tcp = cast(asyncio.Transport, transport)
        if self._buffer_bytes is not None:
            tcp.set_write_buffer_limits(high=self._buffer_bytes)
        if self.holds:
            tcp.pause_reading()

    def hold(self, why: str) -> None:
        """Stop reading until `release` is called with the same reason."""
        if not self.holds and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self.holds.add(why)

    def release(self, why: str) -> None:
        """Read again, unless there is another reason against it."""
        if why not in self.holds:
            return
        self.holds.discard(why)
        if not self.holds and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Stop reading the other socket while this one's buffer is full."""
        self._peer.hold(_BUFFER)

    def resume_writing(self) -> None:
        """Read the other socket again."""
        self._peer.release(_BUFFER)

    def write(self, data: bytes) -> None:
        """Send bytes; nothing happens before it is connected."""
        if self.transport is not None:
            self.transport.write(data)

    def write_eof(self) -> None:
        """End the stream to the peer, once everything is sent."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def close(self) -> None:
        """Close; what is unsent is still sent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close without waiting for what is unsent."""
        if self.transport is not None:
            self.transport.abort()


class SocketPair:
    """The two sockets of one relayed connection, and its end."""

    def __init__(self, accepted: PairedSocket, dialed: PairedSocket, ended: asyncio.Future[None]) -> None:
        """Prepare. ended: set by either socket, with the error that broke it."""
        self.accepted, self.dialed, self._ended = accepted, dialed, ended
        accepted.pair_with(dialed)

    async def dial(self, host: str, port: int) -> None:
        """Connect the dialed socket. Raises OSError."""
        await asyncio.get_running_loop().create_connection(lambda: self.dialed, host, port)

    async def relay(self, client: socket.socket) -> None:
        """Relay an accepted connection, unread until now, until either socket ends. Raises what broke it."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self.accepted, client)
            await self._ended
        except BaseException:
            self.dialed.abort()
            raise
        finally:
            self._ended.cancel()  # nobody waits for it any more
            self.close()

    def close(self) -> None:
        """Close both sockets; what is unsent is still sent."""
        self.dialed.close()
        self.accepted.close()


class Forwarder(PairedSocket):
    """A socket whose bytes go to the other one as they are; the end of its stream too."""

    def __init__(self, ended: asyncio.Future[None]) -> None:
        super().__init__()
        self._ended = ended
        self._finished = False

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        self._peer.write(data)

    def eof_received(self) -> bool:
        """Pass the end of the stream on; the other direction stays open until it ends, too."""
        self._peer.write_eof()
        self._finished = True
        if isinstance(self._peer, Forwarder) and self._peer._finished:
            settle(self._ended)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the relay."""
        settle(self._ended, exc)


def settle(ended: asyncio.Future[None], error: Exception | None = None) -> None:
    """Set the end of a pair, unless it is set already."""
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def forwarding_pair() -> SocketPair:
    """Return two sockets that pass everything on to each other; to be called in a running loop."""
    ended = asyncio.get_running_loop().create_future()
    return SocketPair(Forwarder(ended), Forwarder(ended), ended)
