"""Empty heartbeats by their bytes: requests that hold an id and a progress alone, and answers that hold no news.

Most allocate calls of a cluster are of this kind (an application master sends one each second, whether it wants
anything or not), so that they are not worth a parser. Whatever is not recognised is parsed.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final, NamedTuple

_REQUEST: Final = re.compile(rb"(?:\x1a\x00)?\x20([\x80-\xff]{0,4}[\x00-\x7f])(?:\x2d(.{4}))?", re.DOTALL)
"""AllocateRequestProto in the order of its fields: an empty blacklist_request, response_id, progress."""
_ANSWER: Final = re.compile(rb"\x10([\x80-\xff]{0,4}[\x00-\x7f])")
"""How an AllocateResponseProto without a command to its application master begins: response_id."""
_PROGRESS: Final = Struct("<f")
MAX_HEARTBEAT_BYTES: Final = 2 + 1 + 5 + 1 + 4
"""A longer request is no empty heartbeat."""


class Heartbeat(NamedTuple):
    """An empty request; progress: as reported, not bounded."""

    response_id: int
    progress: float


def heartbeat(body: bytes) -> Heartbeat | None:
    """Return a serialised AllocateRequestProto that is an empty heartbeat, else None."""
    match = _REQUEST.fullmatch(body)
    if match is None:
        return None
    response_id, progress = match.groups()
    return Heartbeat(_int32(response_id), _PROGRESS.unpack(progress)[0] if progress is not None else 0.0)


def split_answer(body: bytes) -> tuple[int, bytes] | None:
    """Return the response id of a serialised AllocateResponseProto, and the bytes behind it; None where another field
    comes first."""
    match = _ANSWER.match(body)
    return None if match is None else (_int32(match[1]), body[match.end() :])


def _int32(varint: bytes) -> int:
    """Return the number of a varint of 1 to 5 bytes; as protobuf reads an int32, only its low 32 bits count."""
    value = varint[0] & 0x7F
    for place, byte in enumerate(varint[1:], 1):
        value |= (byte & 0x7F) << (7 * place)
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
