"""One application master's connection at the node, as a machine: what is read, what is held, what passes as bytes.

The SASL handshake is relayed verbatim to an upstream connection of this gate's own; the attempt that the NMToken names
is believed once the NodeManager said SUCCESS. After the client closed, the upstream can stay open as the attempt's
session: calls of our own go out on it under call ids from the top of the range, which no client has reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from hadoop_rpc.connection import (
    NM_PROTOCOL,
    Call,
    ClientConnection,
    ConnectionContext,
    Failure,
    Opaque,
    Response,
    SaslFrame,
    ServerConnection,
    renumber,
)
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import SASL_CALL_ID, ClientEvent, ServerEvent
from hadoop_rpc.frames import DEFAULT_MAX_FRAME_BYTES
from hadoop_rpc.protos.yarn_pb2 import (
    GetContainerStatusesRequestProto,
    GetContainerStatusesResponseProto,
    StartContainerRequestProto,
    StartContainersRequestProto,
    StartContainersResponseProto,
    StopContainersRequestProto,
    StopContainersResponseProto,
    StringBytesMapProto,
)
from hadoop_rpc.sasl import SaslRelay, SaslResult
from policies.model import Resources
from shell.messages import ContainerState
from sidecar.events import Outcome
from sidecar.gate_events import (
    ClientClosed,
    CloseClient,
    CloseUpstream,
    Decided,
    ForceWanted,
    FromClient,
    FromUpstream,
    Garbage,
    GateCommand,
    GateEvent,
    Going,
    HoldFailed,
    LoggedIn,
    OwnAnswer,
    OwnCall,
    PassesThrough,
    PingDue,
    StartAnswered,
    StartWanted,
    StartWithdrawn,
    StopWanted,
    ToClient,
    ToUpstream,
    UpstreamClosed,
)
from sidecar.starts import (
    attempt_of_nm_token,
    container_id,
    container_proto,
    merged,
    outcome_of,
    read_start,
    waiting_status,
)

Answer = Response | Failure | None
_TOP_CALL_ID = 0x7FFFFFFF
_PASS_FREELY = frozenset(("startContainers", "stopContainers", "getContainerStatuses"))


class Held(Protocol):
    """What a gate wants to know of the node machine: which starts are held."""

    def state(self, container_id: str) -> ContainerState | None:
        """Return WAITING or STARTING for a held start, else None."""

    def held_by(self, attempt_id: str) -> Iterable[tuple[str, Resources]]:
        """Yield id and size of the attempt's held starts."""


@dataclass(slots=True)
class ServicesMeta:
    """The aux services' data (the shuffle port), which this NodeManager gives with each answer; None: not known."""

    data: tuple[StringBytesMapProto, ...] | None = None


@dataclass(slots=True)
class _Starting:
    """A startContainers whose answer is not complete."""

    call: Call
    requests: dict[str, StartContainerRequestProto]
    undecided: set[str]
    unanswered: int = 0
    held: list[str] = field(default_factory=list)
    answers: list[StartContainersResponseProto] = field(default_factory=list)
    failure: Failure | None = None


@dataclass(slots=True)
class _Parked:
    """A call that waits until held starts have gone to the NodeManager."""

    call: Call
    until: set[str]


class Gate:
    """One connection; `handle(event)` is the only way in. `attempt_id` is "" before the NodeManager said who it is."""

    def __init__(self, held: Held, meta: ServicesMeta, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.attempt_id = ""
        self.client_open = True
        self.upstream_open = True
        self.opaque = False
        self.opened = False
        """Whether the handshake is over."""
        self._held = held
        self._meta = meta
        self._server = ServerConnection(max_frame_bytes)
        self._client = ClientConnection(max_frame_bytes)
        self._relay = SaslRelay()
        self._starts: list[_Starting] = []
        self._parked: list[_Parked] = []
        self._awaited: dict[int, Callable[[Answer], None]] = {}
        self._next_own = _TOP_CALL_ID
        self._out: list[GateCommand] = []

    @property
    def busy(self) -> bool:
        """Whether answers of the NodeManager are outstanding that somebody needs."""
        return bool(self._awaited)

    @property
    def kept_bytes(self) -> int:
        """Bytes of calls that wait here for a decision."""
        return sum(len(s.call.raw) for s in self._starts) + sum(len(p.call.raw) for p in self._parked)

    def handle(self, event: GateEvent) -> list[GateCommand]:
        """Take in what happened; return what to do, in order."""
        self._out = []
        match event:
            case FromClient():
                self._from_client(event.data)
            case FromUpstream():
                self._from_upstream(event.data)
            case ClientClosed():
                self.client_open = False
                self._abandon()
            case UpstreamClosed():
                self._upstream_closed()
            case Decided():
                self._decided(event)
            case Going():
                self._going(event.container_id)
            case OwnCall():
                self._own(event.method, event.body, self._own_answer(event.tag))
            case PingDue():
                self._up(self._client.ping())
        return self._out

    # Bytes

    def _from_client(self, data: bytes) -> None:
        if not self.client_open:
            return
        try:
            for event in self._server.receive_data(data):
                self._client_said(event)
        except RemoteProtocolError as error:
            self._broken("client", str(error))

    def _from_upstream(self, data: bytes) -> None:
        if not self.upstream_open:
            return
        try:
            for event in self._client.receive_data(data):
                self._upstream_said(event)
        except (RemoteProtocolError, DecodeError) as error:
            self._broken("NodeManager", str(error))

    def _broken(self, side: str, text: str) -> None:
        self._out.append(Garbage(side, text))
        if self.client_open:
            self.client_open = False
            self._abandon()
            self._out.append(CloseClient())
        if self.upstream_open and (side != "client" or not self.busy):
            self._out.append(CloseUpstream())

    def _client_said(self, event: ServerEvent) -> None:
        match event:
            case Opaque():
                self._up(event.data)
                return
            case SaslFrame():
                self._login(self._relay.from_client(event))
            case ConnectionContext():
                self.opened = True
                if event.protocol != NM_PROTOCOL:
                    self._pass_through(f"the protocol is {event.protocol or 'not named'}", encrypted=False)
            case Call():
                self._call(event)
                return
        self._up(event.raw)
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

    def _pass_through(self, reason: str, *, encrypted: bool) -> None:
        self.opaque = self.opened = True
        self._server.pass_through()
        self._client.pass_through()
        self._out.append(PassesThrough(reason, encrypted))

    def _up(self, data: bytes) -> None:
        if self.upstream_open:
            self._out.append(ToUpstream(data))

    def _down(self, data: bytes) -> None:
        if self.client_open:
            self._out.append(ToClient(data))

    # Calls of the client

    def _call(self, call: Call) -> None:
        held = dict(self._held.held_by(self.attempt_id)) if self.attempt_id else {}
        try:
            if call.method == "startContainers" and self.attempt_id:
                self._start(call)
            elif call.method == "getContainerStatuses" and held:
                self._statuses(call, held)
            elif call.method == "stopContainers" and held:
                self._stop(call, held)
            elif call.method not in _PASS_FREELY and held:
                self._other(call, held)
            else:
                self._up(call.raw)
        except (DecodeError, ValueError):
            self._up(call.raw)  # the NodeManager says what is wrong with it

    def _start(self, call: Call) -> None:
        requests = StartContainersRequestProto.FromString(call.body).start_container_request
        starts = [read_start(request, self.attempt_id) for request in requests]
        by_id = {start.container_id: request for start, request in zip(starts, requests, strict=True)}
        if len(by_id) != len(starts) or not starts:
            self._up(call.raw)
            return
        self._starts.append(_Starting(call, by_id, set(by_id)))
        self._out.extend(StartWanted(start) for start in starts)

    def _decided(self, event: Decided) -> None:
        cid = event.container_id
        for pending in [p for p in self._starts if cid in p.undecided]:
            pending.undecided.discard(cid)
            if event.hold:
                pending.held.append(cid)
            else:
                self._let_through(pending, cid)
            self._complete(pending)
            return
        if not event.hold:
            self._out.append(StartAnswered(cid, Outcome.REFUSED, "the client closed its connection before"))

    def _let_through(self, pending: _Starting, cid: str) -> None:
        """Send one start up: the call as it came when it has no other, else a call of our own."""
        pending.unanswered += 1
        if len(pending.requests) == 1:
            self._awaited[pending.call.call_id] = lambda answer: self._start_answered(pending, cid, answer, whole=True)
            self._up(pending.call.raw)
            return
        body = StartContainersRequestProto(start_container_request=[pending.requests[cid]]).SerializeToString()
        self._own("startContainers", body, lambda answer: self._start_answered(pending, cid, answer, whole=False))

    def _start_answered(self, pending: _Starting, cid: str, answer: Answer, *, whole: bool) -> None:
        outcome, text = outcome_of(answer, cid)
        self._out.append(StartAnswered(cid, outcome, text))
        pending.unanswered -= 1
        if isinstance(answer, Response):
            pending.answers.append(self._learn(answer))
        elif isinstance(answer, Failure):
            pending.failure = answer
        if not whole:
            self._complete(pending)
        elif pending in self._starts:
            self._starts.remove(pending)
            if answer is not None:
                self._down(answer.raw)

    def _complete(self, pending: _Starting) -> None:
        """Answer a call of which every start is decided and answered."""
        if pending.undecided or pending.unanswered or pending not in self._starts:
            return
        call = pending.call
        if pending.failure is not None:
            self._starts.remove(pending)
            self._down(renumber(pending.failure, call.call_id, call.client_id, call.retry_count))
            return
        if self._meta.data is None:
            pending.unanswered += 1
            self._own("startContainers", b"", lambda answer: self._meta_answered(pending, answer))
            return
        self._starts.remove(pending)
        whole = merged(pending.answers)
        whole.succeeded_requests.extend(container_proto(cid) for cid in pending.held)
        if not whole.services_meta_data:
            whole.services_meta_data.extend(self._meta.data)
        self._down(self._server.response(call, whole))

    def _meta_answered(self, pending: _Starting, answer: Answer) -> None:
        pending.unanswered -= 1
        if isinstance(answer, Response):
            self._learn(answer)
        elif isinstance(answer, Failure):
            pending.failure = answer
            text = f"{answer.exception_class}: {answer.text}"
            self._out.extend(HoldFailed(cid, text) for cid in pending.held)
        else:
            return
        self._complete(pending)

    def _learn(self, answer: Response) -> StartContainersResponseProto:
        message = StartContainersResponseProto.FromString(answer.body)
        self._meta.data = tuple(message.services_meta_data)
        return message

    def _statuses(self, call: Call, held: dict[str, Resources]) -> None:
        wanted = GetContainerStatusesRequestProto.FromString(call.body)
        ids = [container_id(proto) for proto in wanted.container_id]
        ours = [waiting_status(cid, held[cid]) for cid in ids if cid in held]
        if not ours:
            self._up(call.raw)
            return
        rest = [proto for proto, cid in zip(wanted.container_id, ids, strict=True) if cid not in held]
        if not rest:
            self._down(self._server.response(call, GetContainerStatusesResponseProto(status=ours)))
            return

        def merge(answer: Response) -> None:
            whole = GetContainerStatusesResponseProto.FromString(answer.body)
            whole.status.extend(ours)
            self._down(self._server.response(call, whole))

        body = GetContainerStatusesRequestProto(container_id=rest).SerializeToString()
        self._own(call.method, body, self._for_client(call, merge))

    def _stop(self, call: Call, held: dict[str, Resources]) -> None:
        wanted = StopContainersRequestProto.FromString(call.body)
        ids = [container_id(proto) for proto in wanted.container_id]
        starting = {cid for cid in ids if self._held.state(cid) is ContainerState.STARTING}
        if starting:
            self._parked.append(_Parked(call, starting))
            return
        stopped = [cid for cid in ids if cid in held]
        if not stopped:
            self._up(call.raw)
            return
        self._out.extend(StopWanted(cid) for cid in stopped)
        done = [container_proto(cid) for cid in stopped]
        rest = [proto for proto, cid in zip(wanted.container_id, ids, strict=True) if cid not in held]
        if not rest:
            self._down(self._server.response(call, StopContainersResponseProto(succeeded_requests=done)))
            return

        def merge(answer: Response) -> None:
            whole = StopContainersResponseProto.FromString(answer.body)
            whole.succeeded_requests.extend(done)
            self._down(self._server.response(call, whole))

        body = StopContainersRequestProto(container_id=rest).SerializeToString()
        self._own(call.method, body, self._for_client(call, merge))

    def _other(self, call: Call, held: dict[str, Resources]) -> None:
        """Start the held containers that a call names before it goes on; ids are found by their bytes."""
        named = {cid for cid in held if container_proto(cid).SerializeToString() in call.body}
        if not named:
            self._up(call.raw)
            return
        self._parked.append(_Parked(call, named))
        self._out.extend(ForceWanted(cid) for cid in sorted(named))

    def _going(self, cid: str) -> None:
        ready = []
        for parked in self._parked:
            parked.until.discard(cid)
            if not parked.until:
                ready.append(parked)
        self._parked = [p for p in self._parked if p.until]
        for parked in ready:
            self._call(parked.call)

    # Calls of our own

    def _own(self, method: str, body: bytes, then: Callable[[Answer], None]) -> None:
        if not self.upstream_open:
            then(None)
            return
        while self._next_own in self._awaited:
            self._next_own -= 1
        call_id, self._next_own = self._next_own, self._next_own - 1
        if self._next_own < _TOP_CALL_ID >> 1:
            self._next_own = _TOP_CALL_ID
        self._awaited[call_id] = then
        self._up(self._client.call(method, NM_PROTOCOL, body, call_id=call_id))

    def _own_answer(self, tag: tuple[str, str]) -> Callable[[Answer], None]:
        return lambda answer: self._out.append(OwnAnswer(tag, answer))

    def _for_client(self, call: Call, merge: Callable[[Response], None]) -> Callable[[Answer], None]:
        def then(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self._down(renumber(answer, call.call_id, call.client_id, call.retry_count))
            elif answer is not None:
                merge(answer)

        return then

    # Closing

    def _abandon(self) -> None:
        """The client is gone: nobody wants its undecided starts and its parked calls."""
        for pending in self._starts:
            self._out.extend(StartWithdrawn(cid) for cid in sorted(pending.undecided))
        self._starts.clear()
        self._parked.clear()

    def _upstream_closed(self) -> None:
        self.upstream_open = False
        awaited, self._awaited = self._awaited, {}
        for then in awaited.values():
            then(None)
        self._abandon()
        if self.client_open:
            self.client_open = False
            self._out.append(CloseClient())


def start_body(payload: bytes) -> bytes:
    """Return the startContainers parameter for one held start, from its serialized request."""
    request = StartContainerRequestProto.FromString(payload)
    return StartContainersRequestProto(start_container_request=[request]).SerializeToString()
