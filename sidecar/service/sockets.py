"""The listening sockets of a sidecar, kept under their names while it restarts."""

from __future__ import annotations

import socket
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.listening import bound_socket
from sidecar.config import Place

SOCKETS: Final = ("sidecar-nodemanager", "sidecar-rest", "sidecar-web")


def bind_sockets(place: Place) -> list[socket.socket]:
    """Return the sockets of the gates, of REST and, where it is relayed, of the NodeManager's web port.

    Raises QuicksilverError when an address cannot be bound.
    """
    bound: list[socket.socket] = []
    try:
        for name, address in zip(SOCKETS, (place.listen, place.rest, place.web_listen), strict=True):
            if address is not None:
                bound.append(bound_socket(*address, name=name))
    except QuicksilverError:
        for sock in bound:
            sock.close()
        raise
    return bound
