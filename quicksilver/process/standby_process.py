"""A process that has loaded the program and waits to become the command, so that a restart does not load it again.

A command under `quicksilver supervise` loads the program first and forks its standby process, before it does anything
else: both have the same pages of memory, apart from those that the command writes. Without one (it died, or a library
had started threads) the supervisor starts a standby process like the command, which loads the program itself. Both have
one end of a socket pair. They receive the stored sockets when they have to become the command; the end of the
connection dismisses them. It imports little, because the supervisor uses it too.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Sequence

from quicksilver.common.process import fdstore
from quicksilver.common.process.parent import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 1 MB
    from typing import Final

VARIABLE: Final = "QUICKSILVER_STANDBY"
"""Environment variable with the descriptor of the socket of a process that is the standby process."""
SUCCESSOR: Final = "QUICKSILVER_SUCCESSOR"
"""Environment variable with the descriptor of the socket of a standby process that the command has to fork."""
_BATCH: Final = 200
"""Descriptors of one message; the kernel's limit is 253."""
_GO: Final = b"null"
_PEER: Final = struct.Struct("3i")


class Standby:
    """The supervisor's side of a standby process."""

    __slots__ = ("control", "pid")

    def __init__(self, control: socket.socket, pid: int | None = None) -> None:
        """Prepare. pid: None for a process that the command has to fork, until that process has sent it."""
        control.setblocking(False)
        self.control, self.pid = control, pid

    def is_expected(self) -> bool:
        """Return whether the process is there or may still come; reads its process id. Does not wait."""
        if self.pid is None:
            try:
                data = self.control.recv(100)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data.isdigit():
                return False
            self.pid = int(data)
        return True

    def promote(self, stored: Sequence[tuple[str, int]], successor: socket.socket | None) -> None:
        """Send the stored sockets, and start it as the command. Raises OSError when it has ended.

        successor: the end of the connection for the standby process that it has to fork.
        """
        import json

        with self.control:
            for at in range(0, len(stored), _BATCH):
                part = stored[at : at + _BATCH]
                names = json.dumps([name for name, _ in part]).encode()
                socket.send_fds(self.control, [names], [number for _, number in part])
            socket.send_fds(self.control, [_GO], [successor.fileno()] if successor is not None else [])


def pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection between a supervisor and a standby process."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def stand_by(load: Callable[[], None]) -> None:
    """Under a supervisor: load the program, fork a standby process; return in the process that is the command.

    Raises SystemExit in a standby process that is dismissed. Does nothing without a supervisor.
    """
    control, successor = (_descriptor(name) for name in (VARIABLE, SUCCESSOR))
    if control is None and successor is None:
        return
    load()
    while True:
        if control is None:
            fdstore.take_over()
        else:
            stored, successor = _wait(control)
            fdstore.hand_over(stored)
        if successor is None or not _fork(successor):
            return
        fdstore.close_all()
        control = successor


def _descriptor(variable: str) -> int | None:
    number = os.environ.pop(variable, "")
    return int(number) if number else None


def _wait(control: int) -> tuple[list[tuple[str, int]], int | None]:
    """Wait until this process has to be the command; return the stored sockets, and the successor's socket."""
    import json

    stored: list[tuple[str, int]] = []
    with socket.socket(fileno=control) as connection:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(connection, 1 << 17, _BATCH, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:  # dismissed before its process id was read
                raise SystemExit(0) from None
            if not data:
                raise SystemExit(0)
            if data == _GO:
                end_with(_PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0])
                return stored, descriptors[0] if descriptors else None
            stored += zip(json.loads(data), descriptors, strict=True)


def _fork(control: int) -> bool:
    """Fork the standby process, which is no child of this one; return whether this is it.

    Where it cannot be forked, the closed connection makes the supervisor start one.
    """
    between = -1
    try:
        if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208  a forked process would lack the other threads
            between = os.fork()
            if between == 0 and os.fork():
                os._exit(0)
    except OSError as error:
        os.write(2, f"quicksilver: no standby process was forked: {error.strerror}\n".encode())
        if between == 0:
            os._exit(1)
    if between == 0:
        try:
            os.write(control, str(os.getpid()).encode())
        except BrokenPipeError:
            raise SystemExit(0) from None  # it is dismissed already
        return True
    os.close(control)
    if between > 0:
        os.waitpid(between, 0)
    return False
