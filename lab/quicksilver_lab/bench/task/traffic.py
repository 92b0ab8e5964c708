"""Bytes that this process sent and received over TCP, as the kernel counts them for each of its connections."""

from __future__ import annotations

import os
import socket
import struct
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

import psutil

_COUNTS: Final = struct.Struct("=QQ")
_OFFSET: Final = 120
"""Of tcpi_bytes_acked, which tcpi_bytes_received follows, in tcp_info (linux/tcp.h)."""
_INFO_BYTES: Final = 256


class Ports(NamedTuple):
    """The ports of a connection."""

    own: int
    peer: int


class Volume(NamedTuple):
    """Bytes of a connection that its peer has, and those that came from it."""

    sent: int
    received: int


def volumes() -> dict[Ports, Volume]:
    """Return those of all open connections."""
    counts = {}
    for each in psutil.Process().net_connections("tcp"):
        if not each.raddr:
            continue
        try:
            with socket.socket(fileno=os.dup(each.fd)) as copy:
                info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        except OSError:
            continue  # a thread closed it meanwhile
        counts[Ports(each.laddr.port, each.raddr.port)] = Volume(*_COUNTS.unpack_from(info, _OFFSET))
    return counts


def between(before: Mapping[Ports, Volume], after: Mapping[Ports, Volume], peers: Mapping[int, str]) -> dict[str, int]:
    """Return what the proxy received and sent between two readings: `from_NAME` and `to_NAME` of each peer.

    peers: names by port, of either end. Connections that ended meanwhile are not counted.
    """
    totals: defaultdict[str, int] = defaultdict(int)
    for ends, volume in after.items():
        earlier = before.get(ends, Volume(0, 0))
        sent, received = volume.sent - earlier.sent, volume.received - earlier.received
        if (name := peers.get(ends.peer) or peers.get(ends.own)) is not None:
            totals[f"from_{name}"] += sent
            totals[f"to_{name}"] += received
    return dict(totals)
