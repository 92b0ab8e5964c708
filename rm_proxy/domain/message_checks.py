"""Checks of allocate requests and answers: their size before they are read, their texts and required fields after it.

A request beyond these bounds passes unread: a row costs the proxy 30 to 60 microseconds and 5 KB, and all application
masters share one process. Real ones send a row for each host of the cluster at most. Protobuf reads strings that are
not UTF-8, which it returns as bytes, and messages without required fields, which cannot be written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.frames import read_varint
from hadoop_rpc.protos import yarn_pb2 as y

MAX_ROWS: Final = 6_000
"""Rows of one request that are read, and its updates, scheduling requests and further parts likewise (own)."""
MAX_RELEASES: Final = 20_000
"""Releases of one request that are read, and names on its blacklist likewise (own)."""
MAX_READ_BYTES: Final = 4 << 20
"""The longest allocate request that is read (own)."""
MAX_ROWS_KEPT: Final = 20_000
"""Rows of one attempt that are remembered (own)."""
MAX_REQUEST_BYTES: Final = 16 << 20
"""The longest frame of an application master that is relayed (own)."""
_ROW, _RELEASE, _BLACKLIST, _RESPONSE_ID = 1, 2, 3, 4
"""Fields of AllocateRequestProto."""
_NAMES: Final = {_ROW: "rows", _RELEASE: "releases", _BLACKLIST: "names on its blacklist"}
_FIXED: Final = {1: 8, 5: 4}
"""Bytes of values by wire type."""
_VARINT, _LENGTH = 0, 2
_NOT_WHOLE: Final = "it lacks required fields"


def too_large(body: bytes) -> str:
    """Return why a serialised AllocateRequestProto is not to be read; "" if it is."""
    if len(body) <= MAX_ROWS:  # a row has two bytes at least
        return ""
    if len(body) > MAX_READ_BYTES:
        return f"its request has {len(body)} bytes, more than {MAX_READ_BYTES}"
    try:
        return _too_many(body)
    except RemoteProtocolError as error:
        return f"its request cannot be counted ({error})"


def _too_many(body: bytes) -> str:
    counts: Counter[int] = Counter()
    for number, start, end in _fields(body, 0, len(body)):
        limit = MAX_RELEASES if number in (_RELEASE, _BLACKLIST) else MAX_ROWS
        names = islice(_fields(body, start, end), limit + 1) if number == _BLACKLIST else (number,)
        counts[number] += sum(1 for _ in names)
        if counts[number] > limit:
            return f"its request has more than {limit} {_NAMES.get(number, 'parts')}"
    return ""


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each field of a message, and where its value begins and ends."""
    while at < end:
        tag, at = read_varint(body, at)
        kind = tag & 7
        if kind == _LENGTH:
            size, at = read_varint(body, at)
        elif kind == _VARINT:
            size = 0
            while at + size < end and body[at + size] & 0x80:
                size += 1
            size += 1
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise RemoteProtocolError(f"wire type {kind} at byte {at}")
        if at + size > end:
            raise RemoteProtocolError(f"it ends within the field at byte {at}")
        yield tag >> 3, at, at + size
        at += size


def response_id_of(body: bytes) -> int:
    """Return the response id of a serialised AllocateRequestProto; all else is skipped. Raises DecodeError."""
    response_id: int = _HEAD.FromString(body).response_id
    return response_id


def _head() -> Any:
    """Return the class of a message that has this one field: protobuf skips the others."""
    file = descriptor_pb2.FileDescriptorProto(name="quicksilver/allocate_head.proto", package="quicksilver")
    field = file.message_type.add(name="AllocateHead").field.add(name="response_id", number=_RESPONSE_ID)
    field.type, field.label = field.TYPE_INT32, field.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("quicksilver.AllocateHead"))


_HEAD: Final = _head()


def check_request(request: y.AllocateRequestProto) -> None:
    """Check the names in a request that the proxy uses. Raises DecodeError."""
    if not request.IsInitialized():
        raise DecodeError(_NOT_WHOLE)
    for row in request.ask:
        if not isinstance(row.resource_name, str):
            raise DecodeError("a resource name is not UTF-8")
        if not isinstance(row.node_label_expression, str):
            raise DecodeError("a node label is not UTF-8")
    blacklist = request.blacklist_request
    if not blacklist.ByteSize():  # AMRMClient sends an empty one with each request
        return
    for name in (*blacklist.blacklist_additions, *blacklist.blacklist_removals):
        _check(name, "a name on the blacklist")


def check_answer(answer: y.AllocateResponseProto) -> None:
    """Check the names in an answer that the proxy uses. Raises DecodeError."""
    if not answer.IsInitialized():
        raise DecodeError(_NOT_WHOLE)
    for container in answer.allocated_containers:
        if not isinstance(container.nodeId.host, str):
            raise DecodeError("a host is not UTF-8")
    for report in answer.updated_nodes:
        _check(report.nodeId.host, "a host")


def _check(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise DecodeError(f"{name} is not UTF-8")
