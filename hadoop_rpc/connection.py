"""The two ends of a Hadoop IPC connection, version 9, as machines: bytes in, events out; calls in, bytes out.

Every event has the bytes of its frame (`raw`), so that a relay can send an unchanged frame as it came.
"""

import secrets

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.errors import LocalProtocolError, RemoteProtocolError
from hadoop_rpc.events import (
    CONTEXT_CALL_ID,
    PING_CALL_ID,
    SASL_CALL_ID,
    Call,
    ClientEvent,
    ConnectionContext,
    Failure,
    Opaque,
    Ping,
    Preamble,
    Response,
    SaslFrame,
    ServerEvent,
)
from hadoop_rpc.frames import DEFAULT_MAX_FRAME_BYTES, FrameBuffer, frame, split_delimited
from hadoop_rpc.messages import (
    IPC_VERSION,
    as_bytes,
    as_text,
    parse_message,
    renumber,
    replace_body,
    replace_method,
    request_header,
    response_header,
    response_header_message,
)
from hadoop_rpc.protos.rpc_pb2 import (
    RPC_PROTOCOL_BUFFER,
    IpcConnectionContextProto,
    RequestHeaderProto,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
    RpcSaslProto,
)
from hadoop_rpc.received_frames import answer_event, out_of_band_event, surplus_error
from hadoop_rpc.shape import Shape

__all__ = [
    "AM_PROTOCOL",
    "AUTH_NONE",
    "AUTH_SASL",
    "CLIENT_PROTOCOL",
    "DISTRIBUTED_SCHEDULING_PROTOCOL",
    "NM_PROTOCOL",
    "Call",
    "ClientConnection",
    "ClientEvent",
    "ConnectionContext",
    "Failure",
    "Opaque",
    "Ping",
    "Preamble",
    "Response",
    "SaslFrame",
    "ServerConnection",
    "ServerEvent",
    "renumber",
    "replace_body",
    "replace_method",
]

AM_PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB"
DISTRIBUTED_SCHEDULING_PROTOCOL = "org.apache.hadoop.yarn.server.api.DistributedSchedulingAMProtocolPB"
NM_PROTOCOL = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB"
CLIENT_PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"

AUTH_NONE = 0
AUTH_SASL = 0xDF

_MAGIC = b"hrpc"
_PREAMBLE_BYTES = 7
MAX_NAMES = 256  # distinct method headers remembered per connection
_OK = RpcResponseHeaderProto.SUCCESS
_CALL_START = b"\x08\x02\x10\x00\x18"  # how request headers begin up to the call id: rpcKind, rpcOp
_RESPONSE_START = b"\x08"
_ERROR_APPLICATION = int(RpcResponseHeaderProto.ERROR_APPLICATION)


class _Receiver:
    """Common part of both ends: cuts frames, passes bytes through on request, stays broken after an error."""

    __slots__ = ("_broken", "_frames", "_opaque", "_shape")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._frames = FrameBuffer(max_frame_bytes)
        self._broken: RemoteProtocolError | None = None
        self._opaque = False
        self._shape: Shape | None = None
        """Headers of the last call or answer; None where frames are not to be compared with them."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of an incomplete frame that are stored."""
        return len(self._frames.unfinished)

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Accept frames up to this length, from the next frame on."""
        self._frames.max_frame_bytes = max_frame_bytes

    def pass_through(self) -> None:
        """From now on return only Opaque events; the first has the bytes of an unfinished preamble or frame."""
        self._opaque, self._shape = True, None

    def like_last(self, data: bytes) -> tuple[int, int, bytes] | None:
        """Return what `Shape.find_whole` reads of `data`: None unless it is one whole frame like the last one.

        Nothing changes, whatever `data` is: an event of these bytes comes from `receive_data` alone.
        """
        shape, frames = self._shape, self._frames
        if shape is None or frames.unfinished or len(data) - 4 > frames.max_frame_bytes:
            return None
        return shape.find_whole(data)

    def _break(self, error: RemoteProtocolError) -> None:
        self._broken, self._shape = error, None

    def _opaque_events(self, data: bytes) -> list[Opaque]:
        data = self._frames.pop_unfinished() + data
        return [Opaque(data)] if data else []


class ServerConnection(_Receiver):
    """The accepting side: receives preamble, logins and calls; writes answers.

    max_frame_bytes: a longer frame is refused as soon as its length is read.
    """

    __slots__ = ("_last", "_names", "_opening")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        super().__init__(max_frame_bytes)
        self._opening: bytes | None = b""  # received part of the preamble; None once it is complete
        self._names: dict[bytes, tuple[str, str]] = {}
        self._last: tuple[int, bytes, int, str, str] = (0, b"", 0, "", "")  # fields of the Call that gave the shape

    def receive_data(self, data: bytes) -> list[ServerEvent]:
        """Return the events that `data` completes, in order.

        Raises RemoteProtocolError when the peer breaks the protocol, and at each call from then on: close it.
        """
        if self._opaque:
            return list(self._opaque_events(data))
        if self._broken is not None:
            raise self._broken
        try:
            if self._opening is None:
                if self._frames.is_whole(data):
                    return [self._event(data)]
                return [self._event(raw) for raw in self._frames.receive_data(data)]
            return self._open(data)
        except RemoteProtocolError as error:
            self._break(error)
            raise

    def call_of(self, raw: bytes) -> Call:
        """Return the call that a frame holds which `like_last` has read. Raises LocalProtocolError for any other."""
        call = self._event(raw)
        if not isinstance(call, Call):
            raise LocalProtocolError(f"the frame holds a {type(call).__name__}, not a call")
        return call

    def response(self, call: Call, result: bytes | Message) -> bytes:
        """Return the frame that answers `call` with `result`."""
        return frame(response_header(call.call_id, call.client_id, call.retry_count, _OK), as_bytes(result))

    def error(
        self,
        call: Call | SaslFrame,
        exception_class: str,
        text: str,
        *,
        fatal: bool = False,
        code: int = _ERROR_APPLICATION,
    ) -> bytes:
        """Return the frame that answers `call` with a Java exception.

        fatal: the client then closes the connection. code: a value of RpcResponseHeaderProto.RpcErrorCodeProto.
        """
        status = RpcResponseHeaderProto.FATAL if fatal else RpcResponseHeaderProto.ERROR
        client_id, retry_count = (call.client_id, call.retry_count) if isinstance(call, Call) else (b"", -1)
        header = response_header_message(call.call_id, client_id, retry_count, status)
        header.exceptionClassName = exception_class
        header.errorMsg = text
        try:
            header.errorDetail = RpcResponseHeaderProto.RpcErrorCodeProto.ValueType(code)
        except ValueError as error:
            raise LocalProtocolError(f"{code} is not an error code of Hadoop IPC") from error
        return frame(header.SerializeToString())

    def sasl(self, message: RpcSaslProto) -> bytes:
        """Return the frame of one SASL step towards the client."""
        return frame(response_header(SASL_CALL_ID, b"", -1, _OK), as_bytes(message))

    def _opaque_events(self, data: bytes) -> list[Opaque]:
        opening, self._opening = self._opening or b"", None
        return super()._opaque_events(opening + data)

    def _open(self, data: bytes) -> list[ServerEvent]:
        """Read the preamble: b"hrpc", version, service class, authentication protocol."""
        have = len(self._opening or b"")
        raw = (self._opening or b"") + data[: _PREAMBLE_BYTES - have]
        self._opening = raw
        if not _MAGIC.startswith(raw[:4]):
            hint = "; this looks like HTTP" if raw[:4] in (b"GET ", b"POST", b"HEAD", b"PUT ") else ""
            raise RemoteProtocolError(f"wrong magic {raw[:4]!r}, a Hadoop IPC connection starts with {_MAGIC!r}{hint}")
        if len(raw) > 4 and raw[4] != IPC_VERSION:
            raise RemoteProtocolError(f"wrong version {raw[4]} of Hadoop IPC, only version {IPC_VERSION} is supported")
        if len(raw) < _PREAMBLE_BYTES:
            return []
        if raw[6] not in (AUTH_NONE, AUTH_SASL):
            raise RemoteProtocolError(f"bad authentication byte {raw[6]}, it must be {AUTH_NONE} or {AUTH_SASL}")
        self._opening = None
        events: list[ServerEvent] = [Preamble(raw[5], raw[6], raw)]
        events += [self._event(whole) for whole in self._frames.receive_data(data, _PREAMBLE_BYTES - have)]
        return events

    def _event(self, raw: bytes) -> ServerEvent:
        shape = self._shape
        if shape is not None and (parts := shape.find(raw)) is not None and not parts[0] & 1:
            zigzag, head_end, body = parts
            _, client_id, retry_count, protocol, method = self._last
            return Call(zigzag >> 1, client_id, retry_count, protocol, method, body, raw, head_end)
        header_bytes, at = split_delimited(raw, 4, "request header")
        try:
            header = RpcRequestHeaderProto.FromString(header_bytes)
        except DecodeError as error:
            raise RemoteProtocolError(f"bad request header of {len(header_bytes)} bytes: {error}") from error
        call_id, client_id = header.callId, header.clientId
        if not (call_id and client_id) and not header.IsInitialized():  # both set: the required fields are there
            raise RemoteProtocolError("bad request header: call id or client id is missing")
        if call_id < 0:
            return out_of_band_event(call_id, raw, at)
        if header.rpcKind != RPC_PROTOCOL_BUFFER:
            raise RemoteProtocolError(
                f"call {call_id} has serialization {header.rpcKind}, only {RPC_PROTOCOL_BUFFER} (protobuf) is read"
            )
        name_bytes, head_end = split_delimited(raw, at, "method header")
        protocol, method = self._names.get(name_bytes) or self._learn(name_bytes)
        body, end = split_delimited(raw, head_end, "parameter")
        if end != len(raw):
            raise surplus_error(raw, end, "parameter")
        call = Call(call_id, client_id, header.retryCount, protocol, method, body, raw, head_end)
        self._remember(call, at)
        return call

    def _remember(self, call: Call, header_end: int) -> None:
        """Store the shape of this call, so that calls like it are read by comparison."""
        self._shape = None
        if call.raw.startswith(_CALL_START, 5):
            shape = Shape(_CALL_START, call.raw, header_end, call.head_end)
            if not RpcRequestHeaderProto.FromString(shape.rest).HasField("callId"):
                self._shape, self._last = shape, call[:5]

    def _learn(self, name_bytes: bytes) -> tuple[str, str]:
        header = parse_message(RequestHeaderProto.FromString, name_bytes, "method header")
        names = (as_text(header.declaringClassProtocolName), as_text(header.methodName))
        if len(self._names) >= MAX_NAMES:
            self._names.clear()
        self._names[name_bytes] = names
        return names


class ClientConnection(_Receiver):
    """The dialing side: writes preamble, login steps and calls; receives answers.

    client_id: 16 bytes that name this client to the server, random by default.
    """

    __slots__ = ("_names", "_next_call_id", "client_id")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES, client_id: bytes | None = None) -> None:
        super().__init__(max_frame_bytes)
        self.client_id = secrets.token_bytes(16) if client_id is None else client_id
        if len(self.client_id) != 16:
            raise LocalProtocolError(f"a client id has 16 bytes, not {len(self.client_id)}")
        self._next_call_id = 0
        self._names: dict[tuple[str, str], bytes] = {}

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Return the events that `data` completes, in order.

        Raises RemoteProtocolError when the peer breaks the protocol, and at each call from then on: close it.
        """
        if self._opaque:
            return list(self._opaque_events(data))
        if self._broken is not None:
            raise self._broken
        try:
            if self._frames.is_whole(data):
                return [self._event(data)]
            return [self._event(raw) for raw in self._frames.receive_data(data)]
        except RemoteProtocolError as error:
            self._break(error)
            raise

    def _event(self, raw: bytes) -> ClientEvent:
        shape = self._shape
        if shape is not None and (parts := shape.find(raw)) is not None and parts[0] <= 0x7FFFFFFF:
            return Response(parts[0], parts[2], raw, parts[1])
        event = answer_event(raw)
        self._shape = None
        if type(event) is Response and raw.startswith(_RESPONSE_START, 5):
            shape = Shape(_RESPONSE_START, raw, event.head_end, event.head_end)
            if not RpcResponseHeaderProto.FromString(shape.rest).HasField("callId"):
                self._shape = shape
        return event

    def preamble(self, auth_protocol: int = AUTH_NONE, service_class: int = 0) -> bytes:
        """Return the 7 bytes that open a connection. auth_protocol: AUTH_NONE or AUTH_SASL."""
        if auth_protocol not in (AUTH_NONE, AUTH_SASL):
            raise LocalProtocolError(
                f"unknown authentication protocol {auth_protocol}, only {AUTH_NONE} and {AUTH_SASL}"
            )
        return _MAGIC + bytes((IPC_VERSION, service_class, auth_protocol))

    def sasl(self, message: RpcSaslProto) -> bytes:
        """Return the frame of one SASL step towards the server."""
        return frame(request_header(SASL_CALL_ID, b"", -1), as_bytes(message))

    def context(self, protocol: str, user: str | None = None) -> bytes:
        """Return the frame that names the protocol that follows; pass `user` only without a token."""
        message = IpcConnectionContextProto(protocol=protocol)
        message.userInfo.SetInParent()
        if user is not None:
            message.userInfo.effectiveUser = user
        return frame(request_header(CONTEXT_CALL_ID, self.client_id, -1), message.SerializeToString())

    def ping(self) -> bytes:
        """Return the frame that keeps an idle connection open."""
        return frame(request_header(PING_CALL_ID, self.client_id, -1))

    def next_call_id(self) -> int:
        """Return an unused call id of this connection, for example for a relayed call that gets a new one."""
        call_id = self._next_call_id
        self._next_call_id = (call_id + 1) & 0x7FFFFFFF
        return call_id

    def call(
        self,
        method: str,
        protocol: str,
        parameter: bytes | Message,
        *,
        call_id: int | None = None,
        retry_count: int = 0,
    ) -> bytes:
        """Return the frame of one request; without `call_id` it gets the next one of this connection.

        The answer has the same call id: take one from `next_call_id()` to know it.
        """
        if call_id is None:
            call_id = self.next_call_id()
        elif not 0 <= call_id <= 0x7FFFFFFF:
            raise LocalProtocolError(f"call id {call_id} is not within 0 and {0x7FFFFFFF}")
        name = self._names.get((protocol, method))
        if name is None:
            name = RequestHeaderProto(
                methodName=method, declaringClassProtocolName=protocol, clientProtocolVersion=1
            ).SerializeToString()
            self._names[protocol, method] = name
        return frame(request_header(call_id, self.client_id, retry_count), name, as_bytes(parameter))
