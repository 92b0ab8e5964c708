"""Messages between the processes of one proxy with sockets in them, over socketpairs that keep message boundaries."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 128 * 1024
"""Of one message; a login has about 1 KB."""
_MAX_SOCKETS: Final = 2


@dataclass(frozen=True, slots=True)
class MasterLogin:
    """A master's connection whose worker is known; its sockets: to the master, and to the ResourceManager.

    chunks: all bytes up to now, and whether the master sent them; relayed: how many were passed on to the other side.
    """

    chunks: tuple[tuple[bool, bytes], ...]
    relayed: int


@dataclass(frozen=True, slots=True)
class RestSocket:
    """A connection to REST that was not read."""


@dataclass(frozen=True, slots=True)
class RmState:
    """Whether the ResourceManager's scheduler port accepts connections."""

    is_open: bool


@dataclass(frozen=True, slots=True)
class StateWanted:
    """A worker began and does not know whether the ResourceManager is there."""


@dataclass(frozen=True, slots=True)
class PeerSocket:
    """A socket to another worker."""

    worker: int


Message = MasterLogin | RestSocket | RmState | StateWanted | PeerSocket


def channel() -> tuple[socket.socket, socket.socket]:
    """Return two ends for messages; neither blocks."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


def send(end: socket.socket, message: Message, sockets: Sequence[int] = ()) -> None:
    """Send a message and copies of sockets. Raises OSError, BlockingIOError where too many messages wait."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    if sockets:
        socket.send_fds(end, [data], list(sockets))
    else:
        end.send(data)


def receive(end: socket.socket) -> Iterator[tuple[Message, list[socket.socket]]]:
    """Yield the messages that wait, with their sockets. Raises EOFError when the other end is closed."""
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(end, MAX_BYTES, _MAX_SOCKETS)
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        yield pickle.loads(data), [socket.socket(fileno=number) for number in descriptors]
