"""Sockets that outlive the process, by systemd's own protocol.

sd_notify(3), sd_listen_fds(3), systemd.service(5) under FileDescriptorStoreMax=. A process sends its sockets to its
supervisor (systemd, or `quicksilver supervise`) and gets them back, by their names, when it is restarted. A client that
connects meanwhile waits in the socket's backlog instead of being refused. Without a supervisor, $NOTIFY_SOCKET is not
set and this module does nothing. It imports little, because the supervisor uses it too.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 1 MB
    from typing import Final

FIRST_FD: Final = 3
"""Where inherited descriptors begin."""
MAX_NAME: Final = 255
_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")

_inherited: dict[str, list[socket.socket]] | None = None


def notify(text: str, descriptors: Sequence[int] = ()) -> bool:
    """Send a message to $NOTIFY_SOCKET, with descriptors; returns whether somebody is there to take it.

    Raises OSError when it is set and the message cannot be sent.
    """
    if not os.environ.get("NOTIFY_SOCKET"):
        return False
    with connected() as sock:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sock.sendmsg([text.encode()], rights)
    return True


def connected() -> socket.socket:
    """Return a socket for messages to $NOTIFY_SOCKET. Raises KeyError when it is not set, or OSError."""
    address = os.environ["NOTIFY_SOCKET"]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sock.connect(f"\0{address[1:]}" if address.startswith("@") else address)
    except OSError:
        sock.close()
        raise
    return sock


def ready() -> bool:
    """Notify the supervisor that this process serves; returns whether there is one."""
    return notify("READY=1")


def store(name: str, *sockets: socket.socket) -> bool:
    """Store sockets at the supervisor under a name; returns whether they are stored.

    Raises ValueError when it is no name (sd_notify(3), FDNAME=), OSError when the keeper does not take them.
    """
    if not name or len(name) > MAX_NAME or not name.isascii() or not name.isprintable() or ":" in name:
        raise ValueError(f"{name!r} is no name of a kept socket")
    return notify(f"FDSTORE=1\nFDNAME={name}", [sock.fileno() for sock in sockets])


def forget(name: str) -> bool:
    """Remove the stored sockets of a name; returns whether there is a supervisor."""
    return notify(f"FDSTOREREMOVE=1\nFDNAME={name}")


def take(name: str) -> list[socket.socket]:
    """Return the stored sockets of a name that were not taken yet; the caller owns them now."""
    global _inherited
    if _inherited is None:
        _inherited = _received()
    return _inherited.pop(name, [])


def names() -> list[str]:
    """Return the names of stored sockets that were not taken yet."""
    global _inherited
    if _inherited is None:
        _inherited = _received()
    return list(_inherited)


def hand_over(descriptors: Sequence[tuple[str, int]]) -> None:
    """Take descriptors, with their names, in place of those that a process is started with."""
    global _inherited
    _inherited = {}
    for name, number in descriptors:
        try:
            sock = socket.socket(fileno=number)
        except OSError:
            os.close(number)
            continue  # as below
        sock.setblocking(False)
        _inherited.setdefault(name, []).append(sock)


def take_over() -> None:
    """Own the stored sockets that this process was started with; a forked process can close its copies of them."""
    global _inherited
    if _inherited is None:
        _inherited = _received()


def close_all() -> None:
    """In a forked process: close its copies of all stored sockets."""
    global _inherited
    for sock in (sock for sockets in (_inherited or {}).values() for sock in sockets):
        sock.close()
    _inherited = {}


def _received() -> dict[str, list[socket.socket]]:
    """Return the inherited descriptors by name; children of this process do not inherit them."""
    values = [os.environ.pop(name, "") for name in _VARIABLES]
    if values[0] != str(os.getpid()) or not values[1].isdigit():
        return {}
    received: dict[str, list[socket.socket]] = {}
    listed = values[2].split(":")
    for number in range(int(values[1])):
        name = listed[number] if number < len(listed) else "unknown"
        try:
            sock = socket.socket(fileno=FIRST_FD + number)
        except OSError:
            continue  # no socket, or none at all: nobody here asked for it to be kept
        sock.set_inheritable(False)
        sock.setblocking(False)
        received.setdefault(name, []).append(sock)
    return received
