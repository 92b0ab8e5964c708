"""A process that has loaded the program and waits to become the command, so that a restart does not load it again.

`quicksilver supervise` starts it like the command, with one end of a socket pair. It receives the stored sockets when
it has to become the command; the end of the connection dismisses it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from quicksilver.common.process import fdstore

VARIABLE: Final = "QUICKSILVER_STANDBY"
"""Environment variable with the descriptor of the socket."""
_BATCH: Final = 200
"""Descriptors of one message; the kernel's limit is 253."""
_GO: Final = b"null"


def send(control: socket.socket, stored: Sequence[tuple[str, int]]) -> None:
    """Send a standby process the stored sockets, and start it. Raises OSError when it has ended."""
    for at in range(0, len(stored), _BATCH):
        part = stored[at : at + _BATCH]
        socket.send_fds(control, [json.dumps([name for name, _ in part]).encode()], [number for _, number in part])
    control.send(_GO)


def stand_by(load: Callable[[], None]) -> None:
    """In a standby process: load the program, and return when this process becomes the command.

    Raises SystemExit when it is dismissed. Does nothing in another process.
    """
    number = os.environ.pop(VARIABLE, "")
    if not number:
        return
    load()
    stored: list[tuple[str, int]] = []
    with socket.socket(fileno=int(number)) as control:
        while True:
            data, descriptors, _, _ = socket.recv_fds(control, 1 << 17, _BATCH, socket.MSG_CMSG_CLOEXEC)
            if not data:
                raise SystemExit(0)
            if data == _GO:
                break
            stored += zip(json.loads(data), descriptors, strict=True)
    fdstore.hand_over(stored)
