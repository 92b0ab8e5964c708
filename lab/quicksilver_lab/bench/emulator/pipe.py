"""A connection within the process: what one end writes is read at the other in a later turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

_HIGH_BYTES: Final = 2**20


class Pipe(asyncio.Transport):
    """One end, as its protocol sees it; `join` makes two.

    Its protocol's `pause_writing` is called when the other end leaves more than `_HIGH_BYTES` unread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol, name: str) -> None:
        super().__init__({"peername": (name, 0)})
        self._loop, self._protocol = loop, protocol
        self._peer: Pipe | None = None
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._high_bytes = _HIGH_BYTES
        self._due = self._reading_paused = self._closing = self._lost = self._writing_paused = False

    # What its protocol calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; nothing happens once either end is closed."""
        if data and self._peer is not None and not self._closing:
            self._peer._take(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send one after another."""
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        """Return whether it is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """Close both ends; the other one first reads what was sent."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._lose)
            if self._peer is not None:
                self._peer._end()

    def abort(self) -> None:
        """Close both ends."""
        self.close()

    def pause_reading(self) -> None:
        """Have what comes wait."""
        self._reading_paused = True

    def resume_reading(self) -> None:
        """Read again."""
        self._reading_paused = False
        self._wake()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set what the other end may leave unread."""
        self._high_bytes = _HIGH_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        """Return what the other end has not read."""
        return self._peer._unread_bytes if self._peer is not None else 0

    # What the other end does

    def _take(self, data: bytes) -> None:
        if self._closing:
            return
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._peer is not None and self._unread_bytes > self._peer._high_bytes:
            self._peer._hold(True)
        self._wake()

    def _end(self) -> None:
        if not self._closing:
            self._loop.call_soon(self._ended)

    def _ended(self) -> None:
        self._reading_paused = False
        self._read()
        self._closing = True
        self._lose()

    def _hold(self, hold: bool) -> None:
        if hold != self._writing_paused and not self._lost:
            self._writing_paused = hold
            protocol: Any = self._protocol
            (protocol.pause_writing if hold else protocol.resume_writing)()

    def _wake(self) -> None:
        if self._unread and not self._due and not self._reading_paused:
            self._due = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._due = False
        if self._reading_paused or self._lost or not self._unread:
            return
        data = b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        if self._peer is not None:
            self._peer._hold(False)
        protocol: Any = self._protocol
        protocol.data_received(data)

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._peer = None
            protocol: Any = self._protocol
            protocol.connection_lost(None)


def join(first: asyncio.BaseProtocol, second: asyncio.BaseProtocol, name: str = "within") -> None:
    """Connect two protocols within the running loop; `name` is what each sees as its peer's host."""
    loop = asyncio.get_running_loop()
    first_end, second_end = Pipe(loop, first, name), Pipe(loop, second, name)
    first_end._peer, second_end._peer = second_end, first_end
    second.connection_made(second_end)
    first.connection_made(first_end)
