"""Empty heartbeats as bytes, built and checked with very little work, so that the load generator costs little.

Call id and response id of an application master rise together, so every frame of one id is the same but for the 16
bytes of the client id.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from hadoop_rpc.connection import AM_PROTOCOL, ClientConnection
from hadoop_rpc.frames import varint
from hadoop_rpc.protos.yarn_pb2 import AllocateRequestProto, ResourceBlacklistRequestProto

_REMEMBERED: Final = 8192
_MARK: Final = bytes(range(0xE0, 0xF0))


class Beat(NamedTuple):
    """The frame of one id without its client id, and what the answer to it looks like."""

    head: bytes
    tail: bytes
    answer_header: bytes
    """How the answer's header begins behind its length: call id and status SUCCESS."""
    answer_body: bytes
    """How the answer's body begins behind its length: the next response id."""


@lru_cache(_REMEMBERED)
def beat(number: int) -> Beat:
    """Return the heartbeat with response id and call id `number`, from 0 on."""
    request = AllocateRequestProto(
        response_id=number, progress=0.5, blacklist_request=ResourceBlacklistRequestProto()
    )  # MapReduce and AMRMClient send the empty blacklist too
    connection = ClientConnection(client_id=_MARK)
    frame = connection.call("allocate", AM_PROTOCOL, request, call_id=number)
    head, _, tail = frame.partition(_MARK)
    return Beat(head, tail, b"\x08" + varint(number) + b"\x10\x00", b"\x10" + varint(number + 1))


def is_plain_answer(data: bytes, expected: Beat) -> bool:
    """Return whether `data` is one whole frame with a successful answer to `expected` that carries the next id.

    False only means that a closer look is needed: the frame is unfinished, has another field first, or is a failure.
    """
    if (
        len(data) < 6
        or int.from_bytes(data[:4], "big") != len(data) - 4
        or not data.startswith(expected.answer_header, 5)
    ):
        return False
    at = 5 + data[4]
    at += 1 if data[at] < 0x80 else 2  # a body of an empty answer is shorter than 16 kB
    return data.startswith(expected.answer_body, at)
