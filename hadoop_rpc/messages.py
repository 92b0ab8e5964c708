"""Messages for both ends of a connection: read, write, and change within a frame."""

from collections.abc import Callable
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from hadoop_rpc.errors import LocalProtocolError, RemoteProtocolError
from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.frames import split_delimited, varint
from hadoop_rpc.protos.rpc_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RequestHeaderProto,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
)

__all__ = [
    "IPC_VERSION",
    "as_bytes",
    "as_text",
    "parse_message",
    "renumber",
    "replace_body",
    "replace_method",
    "request_header",
    "response_header",
    "response_header_message",
]

IPC_VERSION: Final = 9

_M = TypeVar("_M", bound=Message)


def replace_body(event: Call | Response, body: bytes | Message) -> bytes:
    """Return the frame of `event` with another body; the bytes of its headers stay."""
    data = as_bytes(body)
    payload = event.raw[4 : event.head_end] + varint(len(data)) + data
    return len(payload).to_bytes(4, "big") + payload


def replace_method(call: Call, protocol: str, method: str, body: bytes) -> bytes:
    """Return the frame of `call` as one of another method, with another body; the bytes of its first header stay."""
    _, end = split_delimited(call.raw, 4, "header")
    name = RequestHeaderProto(
        methodName=method, declaringClassProtocolName=protocol, clientProtocolVersion=1
    ).SerializeToString()
    payload = b"".join((call.raw[4:end], varint(len(name)), name, varint(len(body)), body))
    return len(payload).to_bytes(4, "big") + payload


def renumber(
    event: Call | Response | Failure, call_id: int, client_id: bytes | None = None, retry_count: int | None = None
) -> bytes:
    """Return the frame of `event` with another call id and, if given, another client id and retry count.

    Everything else stays, unknown header fields included.
    """
    header_bytes, end = split_delimited(event.raw, 4, "header")
    header: RpcRequestHeaderProto | RpcResponseHeaderProto
    if isinstance(event, Call):
        header = RpcRequestHeaderProto.FromString(header_bytes)
        header.callId = call_id
    else:
        header = RpcResponseHeaderProto.FromString(header_bytes)
        header.callId = call_id & 0xFFFFFFFF
    if client_id is not None:
        header.clientId = client_id
    if retry_count is not None:
        header.retryCount = retry_count
    data = header.SerializeToString()
    payload = varint(len(data)) + data + event.raw[end:]
    return len(payload).to_bytes(4, "big") + payload


def as_bytes(message: bytes | Message) -> bytes:
    """Return `message` as bytes. Raises LocalProtocolError when a required field is missing."""
    if isinstance(message, bytes):
        return message
    try:
        return message.SerializeToString()
    except EncodeError as error:
        raise LocalProtocolError(f"cannot send an incomplete message: {error}") from error


def parse_message(make: Callable[[bytes], _M], data: bytes, name: str) -> _M:
    """Return the message that `make` reads from `data`.

    Raises RemoteProtocolError when `data` is another message or lacks a required field; `name` names it in the text."""
    try:
        message = make(data)
    except DecodeError as error:
        raise RemoteProtocolError(f"bad {name} of {len(data)} bytes: {error}") from error
    if not message.IsInitialized():
        raise RemoteProtocolError(f"bad {name}: a required field is missing")
    return message


def as_text(value: str) -> str:
    """Return `value` as text; protobuf returns bytes for a string field that is not UTF-8."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes) else value


def request_header(call_id: int, client_id: bytes, retry_count: int) -> bytes:
    """Return the header of a request, serialised."""
    return RpcRequestHeaderProto(
        rpcKind=RPC_PROTOCOL_BUFFER,
        rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET,
        callId=call_id,
        clientId=client_id,
        retryCount=retry_count,
    ).SerializeToString()


def response_header_message(
    call_id: int, client_id: bytes, retry_count: int, status: RpcResponseHeaderProto.RpcStatusProto.ValueType
) -> RpcResponseHeaderProto:
    """Return the header of an answer."""
    return RpcResponseHeaderProto(
        callId=call_id & 0xFFFFFFFF,
        status=status,
        serverIpcVersionNum=IPC_VERSION,
        clientId=client_id,
        retryCount=retry_count,
    )


def response_header(
    call_id: int, client_id: bytes, retry_count: int, status: RpcResponseHeaderProto.RpcStatusProto.ValueType
) -> bytes:
    """Return the header of an answer, serialised."""
    return response_header_message(call_id, client_id, retry_count, status).SerializeToString()
