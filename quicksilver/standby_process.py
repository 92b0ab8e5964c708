"""A process that has loaded the program and waits to become the command: so that a restart takes no time to load it.

`quicksilver keep` starts it as it starts the command, with one end of a socket. It gets the kept sockets when its time
has come; the end of the connection means that it is not wanted.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from quicksilver.common.process import fdstore

VARIABLE: Final = "QUICKSILVER_SPARE"
"""Names the descriptor of the socket."""
_AT_ONCE: Final = 200
"""Descriptors of one message; the kernel takes 253."""
_GO: Final = b"null"


def send(control: socket.socket, kept: Sequence[tuple[str, int]]) -> None:
    """Give a spare the kept sockets, and let it go. Raises OSError when it is gone."""
    for at in range(0, len(kept), _AT_ONCE):
        some = kept[at : at + _AT_ONCE]
        socket.send_fds(control, [json.dumps([name for name, _ in some]).encode()], [number for _, number in some])
    control.send(_GO)


def stand_by(load: Callable[[], None]) -> None:
    """In a process that was started as a spare: load the program, return when it is to be the command.

    Raises SystemExit when it is not wanted. Does nothing in another process.
    """
    number = os.environ.pop(VARIABLE, "")
    if not number:
        return
    load()
    kept: list[tuple[str, int]] = []
    with socket.socket(fileno=int(number)) as control:
        while True:
            data, descriptors, _, _ = socket.recv_fds(control, 1 << 17, _AT_ONCE, socket.MSG_CMSG_CLOEXEC)
            if not data:
                raise SystemExit(0)
            if data == _GO:
                break
            kept += zip(json.loads(data), descriptors, strict=True)
    fdstore.hand_over(kept)
