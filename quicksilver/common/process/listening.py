"""The listening sockets of the daemons, which outlive a process where they have a name."""

from __future__ import annotations

import socket
from typing import Any, Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process import fdstore

BACKLOG: Final = 4096
"""Connections that wait to be accepted; the kernel's own limit is net.core.somaxconn."""


def bound_socket(host: str, port: int, name: str = "") -> socket.socket:
    """Return a listening socket at `host:port` (port 0: any free one).

    With a name: the one that was kept under it by the process before, if it is at this address; else a new one, which
    is kept from now on (quicksilver/common/process/fdstore.py). Raises QuicksilverError naming the address when it is
    occupied or not of this machine.
    """
    place = f"{host}:{port}"
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise QuicksilverError(f"cannot be resolved: {error}", place=place, remedy="correct the address") from error
    sock = _from_store(name, info[4]) if name else None
    if sock is not None:
        return sock
    sock = socket.socket(info[0], socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(sock)
        sock.bind(info[4])
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        message = f"cannot listen: {error.strerror or error}"
        remedy = "stop what holds the port (`ss -ltnp` shows it), or choose another address"
        raise QuicksilverError(message, place=place, remedy=remedy) from error
    if name:
        fdstore.store(name, sock)
    return sock


def _keep_alive(sock: socket.socket) -> None:
    """Have the connections that are accepted here miss a peer that is gone without a word, after two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _from_store(name: str, address: tuple[Any, ...]) -> socket.socket | None:
    """Return the socket that was kept under a name where its address is still the one wanted; others are closed."""
    match = None
    taken = fdstore.take(name)
    for sock in taken:
        here = sock.getsockname()
        if match is None and (here == address or (address[1] == 0 and here[0] == address[0])):
            match = sock
        else:
            sock.close()
    if taken and match is None:
        fdstore.forget(name)
    return match
