"""One application master's connection at the node, as a machine: it reads calls, holds starts and relays the rest.

The SASL handshake is relayed verbatim to an upstream connection of this gate's own; the attempt that the NMToken names
is believed once the NodeManager said SUCCESS. After the client closed, the upstream can stay open as the attempt's
session: our own calls are sent on it under call ids from the top of the range. An id belongs to one call until that
call is answered: a client that sends it again before has broken the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from google.protobuf.message import DecodeError, EncodeError

from hadoop_rpc.connection import (
    NM_PROTOCOL,
    Call,
    ClientConnection,
    ConnectionContext,
    Opaque,
    SaslFrame,
    ServerConnection,
)
from hadoop_rpc.errors import HadoopRpcError, RemoteProtocolError
from hadoop_rpc.events import SASL_CALL_ID, ClientEvent, ServerEvent
from hadoop_rpc.frames import BEFORE_LOGIN_BYTES, DEFAULT_MAX_FRAME_BYTES, varint
from hadoop_rpc.protos.yarn_pb2 import StartContainersRequestProto
from hadoop_rpc.sasl import SaslRelay, SaslResult
from sidecar.gate.container_calls import Answer, Calls, Held, ServicesMeta
from sidecar.gate.events import (
    Again,
    ClientClosed,
    CloseClient,
    CloseUpstream,
    FromClient,
    FromUpstream,
    Garbage,
    GateCommand,
    GateDecided,
    GateEvent,
    Going,
    LoggedIn,
    OwnAnswer,
    OwnCall,
    PassesThrough,
    PingDue,
    ToClient,
    ToUpstream,
    UpstreamClosed,
)
from sidecar.gate.start_messages import (
    attempt_of_nm_token,
)

_TOP_CALL_ID = 0x7FFFFFFF
_START_TAG: Final = bytes((StartContainersRequestProto.START_CONTAINER_REQUEST_FIELD_NUMBER << 3 | 2,))
"""What protobuf writes before each request of a startContainers: the field, and that its length follows."""
MAX_IN_FLIGHT: Final = 4096
"""Calls of one client without an answer; Hadoop's clients have one for each of their threads (MapReduce: 500)."""


class Gate:
    """One connection; `handle(event)` is the only way in. `attempt_id` is "" until the NodeManager accepts a login."""

    def __init__(self, node: Held, meta: ServicesMeta, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.attempt_id = ""
        self.client_open = True
        self.upstream_open = True
        self.opaque = False
        self.opened = False
        """Whether the handshake is over."""
        self._max_frame_bytes = max_frame_bytes
        self._server = ServerConnection(min(max_frame_bytes, BEFORE_LOGIN_BYTES))
        self._client = ClientConnection(max_frame_bytes)
        self._relay = SaslRelay()
        self._calls = Calls(self, node, meta)
        self._in_flight: set[int] = set()
        """Ids of the client's calls that are not answered yet."""
        self._awaited: dict[int, Callable[[Answer], None]] = {}
        self._next_own = _TOP_CALL_ID
        self._out: list[GateCommand] = []

    @property
    def busy(self) -> bool:
        """Whether needed answers of the NodeManager are outstanding."""
        return bool(self._awaited)

    @property
    def kept_bytes(self) -> int:
        """Bytes of calls that wait here for a decision."""
        return self._calls.kept_bytes

    @property
    def waits_for_starts(self) -> bool:
        """Whether calls wait here until held starts have gone to the NodeManager."""
        return self._calls.waits_for_starts

    def handle(self, event: GateEvent) -> list[GateCommand]:
        """Handle an event; return the commands to execute, in order."""
        self._out = []
        match event:
            case FromClient():
                self._from_client(event.data)
            case FromUpstream():
                self._from_upstream(event.data)
            case ClientClosed():
                self.client_open = False
                self._calls.abandon()
            case UpstreamClosed():
                self._upstream_closed()
            case GateDecided():
                self._calls.decided(event)
            case Going():
                self._calls.going(event.container_id)
            case OwnCall():
                self.own(event.method, event.body, self._own_answer(event.tag))
            case Again():
                self._calls.again(event.container_id)
            case PingDue():
                self.up(self._client.ping())
        return self._out

    # Bytes

    def _from_client(self, data: bytes) -> None:
        if not self.client_open:
            return
        try:
            for event in self._server.receive_data(data):
                self._client_said(event)
        except HadoopRpcError as error:
            self._broken("client", str(error))

    def _from_upstream(self, data: bytes) -> None:
        if not self.upstream_open:
            return
        try:
            self._calls.reached()
            for event in self._client.receive_data(data):
                self._upstream_said(event)
        except (HadoopRpcError, DecodeError, EncodeError) as error:  # also a readable message that cannot be passed on
            self._broken("NodeManager", str(error))

    def _broken(self, side: str, text: str) -> None:
        self._out.append(Garbage(side, text))
        if self.client_open:
            self.client_open = False
            self._calls.abandon()
            self._out.append(CloseClient())
        if self.upstream_open and (side != "client" or not self.busy):
            self._out.append(CloseUpstream())

    def _client_said(self, event: ServerEvent) -> None:
        match event:
            case Opaque():
                self.up(event.data)
                return
            case SaslFrame():
                self._login(self._relay.from_client(event))
            case ConnectionContext():
                self.opened = True
                if event.protocol != NM_PROTOCOL:
                    self._pass_through(f"the protocol is {event.protocol or 'not named'}", encrypted=False)
            case Call():
                if event.call_id in self._in_flight or event.call_id in self._awaited:
                    raise RemoteProtocolError(f"call id {event.call_id} comes again before its call is answered")
                if len(self._in_flight) >= MAX_IN_FLIGHT:
                    raise RemoteProtocolError(f"more than {MAX_IN_FLIGHT} calls are waiting for their answers")
                self._in_flight.add(event.call_id)
                self._calls.take(event)
                return
        self.up(event.raw)
        if isinstance(event, ConnectionContext) and self.attempt_id and not self.opaque:
            self._out.append(LoggedIn(self.attempt_id))  # not before: the NodeManager takes no call without a context

    def _upstream_said(self, event: ClientEvent) -> None:
        if isinstance(event, Opaque):
            self._down(event.data)
            return
        if isinstance(event, SaslFrame):
            self._login(self._relay.from_server(event))
        elif event.call_id != SASL_CALL_ID and event.call_id in self._awaited:
            self._awaited.pop(event.call_id)(event)
            return
        else:
            self._in_flight.discard(event.call_id)
        self._down(event.raw)

    def _login(self, result: SaslResult | None) -> None:
        if result is None:
            return
        if result.wrapped:
            self._pass_through(f"the connection's quality of protection is {result.qop or 'not known'}", encrypted=True)
        elif result.identifier is not None:
            try:
                self.attempt_id = attempt_of_nm_token(result.identifier)
            except (DecodeError, ValueError) as error:
                raise RemoteProtocolError(f"bad NMToken identifier: {error}") from error
            self._server.limit_frames(self._max_frame_bytes)

    def _pass_through(self, reason: str, *, encrypted: bool) -> None:
        self.opaque = self.opened = True
        self._server.pass_through()
        self._client.pass_through()
        self._out.append(PassesThrough(reason, encrypted))

    def up(self, data: bytes) -> None:
        """Send to the NodeManager, unless it is gone."""
        if self.upstream_open:
            self._out.append(ToUpstream(data))

    def answer(self, call: Call, data: bytes) -> None:
        """Answer a call of the client."""
        self._in_flight.discard(call.call_id)
        self._down(data)

    def _down(self, data: bytes) -> None:
        """Send to the client, unless it is gone."""
        if self.client_open:
            self._out.append(ToClient(data))

    def emit(self, *commands: GateCommand) -> None:
        """Emit commands."""
        self._out.extend(commands)

    # Calls to the NodeManager

    def relay(self, call: Call, then: Callable[[Answer], None]) -> None:
        """Send a client's call as it came; `then` gets the answer."""
        self._awaited[call.call_id] = then
        self.up(call.raw)

    def own(self, method: str, body: bytes, then: Callable[[Answer], None]) -> None:
        """Call the NodeManager under a call id of our own; `then` gets the answer, None when the session is lost."""
        if not self.upstream_open:
            then(None)
            return
        while self._next_own in self._awaited or self._next_own in self._in_flight:
            self._next_own -= 1
        call_id, self._next_own = self._next_own, self._next_own - 1
        if self._next_own < _TOP_CALL_ID >> 1:
            self._next_own = _TOP_CALL_ID
        self._awaited[call_id] = then
        self.up(self._client.call(method, NM_PROTOCOL, body, call_id=call_id))

    def _own_answer(self, tag: tuple[str, str]) -> Callable[[Answer], None]:
        return lambda answer: self._out.append(OwnAnswer(tag, answer))

    # Closing

    def _upstream_closed(self) -> None:
        self.upstream_open = False
        awaited, self._awaited = self._awaited, {}
        for then in awaited.values():
            then(None)
        self._calls.abandon()
        self._calls.forget_services()
        if self.client_open:
            self.client_open = False
            self._out.append(CloseClient())


def start_body(payload: bytes) -> bytes:
    """Return the startContainers parameter for one held start, from its serialized request."""
    return _START_TAG + varint(len(payload)) + payload
