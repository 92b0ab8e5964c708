"""Empty heartbeats by their bytes: requests that hold an id and a progress alone, and answers that hold no news.

Most allocate calls of a cluster are of this kind (an application master sends one each second, whether it wants
anything or not), so that they are not worth a parser, nor a regular expression. Whatever is not recognised is parsed.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from hadoop_rpc.frames import varint

_EMPTY_BLACKLIST: Final = b"\x1a\x00"
"""Field blacklist_request of an AllocateRequestProto; MapReduce and AMRMClient send an empty one each time."""
_REQUEST_ID: Final = 0x20
"""Its field response_id."""
_PROGRESS: Final = 0x2D
"""Its field progress: a float behind this byte."""
_ANSWER_ID: Final = 0x10
"""Field response_id of an AllocateResponseProto, the first one where no command goes to the application master."""
_ANSWER: Final = re.compile(rb"\x10([\x80-\xff]{0,4}[\x00-\x7f])")
_MAX_ID_BYTES: Final = 5
_FLOAT: Final = Struct("<f")
MAX_HEARTBEAT_BYTES: Final = 2 + 1 + 5 + 1 + 4
"""A longer request is no empty heartbeat."""


def head_after(response_id: int) -> bytes | None:
    """Return the field response_id of the request that follows the answer of this id; None if there is no such id."""
    if 0x80 <= response_id < 0x4000:  # nearly always
        return bytes((_REQUEST_ID, response_id & 0x7F | 0x80, response_id >> 7))
    return bytes((_REQUEST_ID,)) + varint(response_id) if response_id >= 0 else None


def progress_in(body: bytes, head: bytes) -> float | None:
    """Return the progress, 0 to 1, in a serialised AllocateRequestProto that is an empty heartbeat with this field
    response_id; None for any other request."""
    start = 2 if body.startswith(_EMPTY_BLACKLIST) else 0
    if not body.startswith(head, start):
        return None
    at = start + len(head)
    size = len(body) - at
    if size == 0:
        return 0.0
    if size != 5 or body[at] != _PROGRESS:
        return None
    progress: float = _FLOAT.unpack_from(body, at + 1)[0]
    return progress if 0.0 <= progress <= 1.0 else min(max(progress, 0.0), 1.0)


def split_answer(body: bytes) -> tuple[int, bytes] | None:
    """Return the response id of a serialised AllocateResponseProto, and the bytes behind it; None where another field
    comes first."""
    match = _ANSWER.match(body)
    return None if match is None else (_int32(match[1]), body[match.end() :])


def id_before_rest(body: bytes, rest: bytes) -> int | None:
    """Return the response id of an answer that `split_answer` would return with these bytes behind it, else None."""
    end = len(body) - len(rest)
    if not 1 < end <= 1 + _MAX_ID_BYTES or body[0] != _ANSWER_ID or not body.endswith(rest):
        return None
    if end == 3 and body[1] > 0x7F and body[2] < 0x80:  # nearly always
        return body[1] & 0x7F | body[2] << 7
    parts = split_answer(body)
    return parts[0] if parts is not None and parts[1] == rest else None


def _int32(number: bytes) -> int:
    """Return the number of a varint of 1 to 5 bytes; as protobuf reads an int32, only its low 32 bits count."""
    value = number[0] & 0x7F
    for place, byte in enumerate(number[1:], 1):
        value |= (byte & 0x7F) << (7 * place)
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
