"""Messages of the front to one worker: what its channel has no room for waits, in order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from quicksilver.common.process.limits import Seldom
from rm_proxy.service.workers import sockets

_seldom = Seldom()
MOST_WAITING: Final = 1000
"""Messages; a kernel's channel has room for some hundred logins, and after a restart all masters come at once."""


class ChannelWriter:
    """Writes into a channel, in an event loop."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._waiting: deque[tuple[sockets.Message, list[int]]] = deque()

    def send(self, message: sockets.Message, ends: Sequence[int] = ()) -> None:
        """Send a message and copies of sockets, later when there is room.

        Raises OSError when the worker is gone, or BlockingIOError when MOST_WAITING wait.
        """
        if not self._waiting:
            try:
                sockets.send(self.end, message, ends)
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(self.end, self._write)
            else:
                return
        if len(self._waiting) >= MOST_WAITING:
            raise BlockingIOError(f"{MOST_WAITING} messages wait")
        copies: list[int] = []
        self._waiting.append((message, copies))
        try:
            copies.extend(map(os.dup, ends))
        except OSError:  # no more open files
            self._waiting.pop()
            for number in copies:
                os.close(number)
            raise

    def _write(self) -> None:
        while self._waiting:
            message, copies = self._waiting[0]
            try:
                sockets.send(self.end, message, copies)
            except BlockingIOError:
                return
            except OSError as error:
                _seldom.warning("connections closed: their worker is gone", count=len(self._waiting), why=str(error))
                self.close()
                return
            self._drop()
        asyncio.get_running_loop().remove_writer(self.end)

    def close(self) -> None:
        """Send no more, and close the copies of sockets."""
        asyncio.get_running_loop().remove_writer(self.end)
        while self._waiting:
            self._drop()

    def _drop(self) -> None:
        for number in self._waiting.popleft()[1]:
            os.close(number)
