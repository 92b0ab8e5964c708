"""Single frames as events: whatever can be read without knowledge of the connection or of earlier frames."""

from google.protobuf.message import DecodeError

from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import (
    CONTEXT_CALL_ID,
    PING_CALL_ID,
    SASL_CALL_ID,
    ClientEvent,
    ConnectionContext,
    Failure,
    Ping,
    Response,
    SaslFrame,
    ServerEvent,
)
from hadoop_rpc.frames import split_delimited
from hadoop_rpc.messages import as_text, parse_message
from hadoop_rpc.protos.rpc_pb2 import IpcConnectionContextProto, RpcResponseHeaderProto, RpcSaslProto


def answer_event(raw: bytes) -> ClientEvent:
    """Return the event of a frame of the server. Raises RemoteProtocolError."""
    header_bytes, at = split_delimited(raw, 4, "response header")
    try:
        header = RpcResponseHeaderProto.FromString(header_bytes)
    except DecodeError as error:
        raise RemoteProtocolError(f"bad response header of {len(header_bytes)} bytes: {error}") from error
    call_id = header.callId
    if not (header.HasField("status") if call_id else header.IsInitialized()):
        raise RemoteProtocolError("bad response header: call id or status is missing or unknown")
    if call_id > 0x7FFFFFFF:
        call_id -= 1 << 32
    if header.status:
        return _failure(call_id, header, raw)
    if call_id == SASL_CALL_ID:
        return _sasl_frame(raw, at)
    if at == len(raw):
        return Response(call_id, b"", raw, at)
    body, end = split_delimited(raw, at, "result")
    if end != len(raw):
        raise surplus_error(raw, end, "result")
    return Response(call_id, body, raw, at)


def _failure(call_id: int, header: RpcResponseHeaderProto, raw: bytes) -> Failure:
    return Failure(
        call_id,
        as_text(header.exceptionClassName),
        as_text(header.errorMsg),
        header.status == RpcResponseHeaderProto.FATAL,
        header.errorDetail if header.HasField("errorDetail") else 0,
        raw,
    )


def out_of_band_event(call_id: int, raw: bytes, at: int) -> ServerEvent:
    """Return the event of a client's frame with a negative call id; at: where its header ends.

    Raises RemoteProtocolError.
    """
    if call_id == PING_CALL_ID:
        if at != len(raw):
            raise surplus_error(raw, at, "ping")
        return Ping(raw)
    if call_id == SASL_CALL_ID:
        return _sasl_frame(raw, at)
    if call_id == CONTEXT_CALL_ID:
        data, end = split_delimited(raw, at, "connection context")
        if end != len(raw):
            raise surplus_error(raw, end, "connection context")
        context = parse_message(IpcConnectionContextProto.FromString, data, "connection context")
        return ConnectionContext(as_text(context.protocol), as_text(context.userInfo.effectiveUser), raw)
    known = f"{CONTEXT_CALL_ID}, {PING_CALL_ID} and {SASL_CALL_ID}"
    raise RemoteProtocolError(f"bad request header: call id {call_id}, of the negative ids only {known} have a meaning")


def _sasl_frame(raw: bytes, at: int) -> SaslFrame:
    data, end = split_delimited(raw, at, "SASL message")
    if end != len(raw):
        raise surplus_error(raw, end, "SASL message")
    message = parse_message(RpcSaslProto.FromString, data, "SASL message")
    return SaslFrame(SASL_CALL_ID, message.state, message, raw)


def surplus_error(raw: bytes, end: int, part: str) -> RemoteProtocolError:
    """Return the error for bytes after the last part of a frame, `part`, which ends at `end`."""
    return RemoteProtocolError(f"{len(raw) - end} bytes too many after the {part}, at byte {end} of the frame")
