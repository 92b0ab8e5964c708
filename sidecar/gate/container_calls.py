"""Handles a client's calls about containers: decides each start, and answers for waiting containers.

A call that concerns no held start passes as the bytes that came; its answer too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from google.protobuf.message import DecodeError, EncodeError

from hadoop_rpc.connection import (
    Call,
    Failure,
    Response,
    ServerConnection,
    renumber,
)
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
from policies.model import Resources
from quicksilver.common.messages import ContainerState
from sidecar.gate.events import (
    ForceWanted,
    GateCommand,
    GateDecided,
    HoldFailed,
    StartAnswered,
    StartEarly,
    StartWanted,
    StartWithdrawn,
    StopWanted,
)
from sidecar.gate.start_messages import (
    as_started,
    container_id,
    container_proto,
    is_early,
    merged,
    outcome_of,
    read_start,
    waiting_status,
)
from sidecar.node.events import Outcome

Answer = Response | Failure | None
_TRIES: Final = 15
"""Tries of a start that arrives before the NodeManager has registered, a second apart."""
_PASS_FREELY = frozenset(("startContainers", "stopContainers", "getContainerStatuses"))


class Held(Protocol):
    """The node machine as a gate sees it: the held starts."""

    def held_state(self, container_id: str) -> ContainerState | None:
        """Return WAITING or STARTING for a held start, else None."""

    def held_by(self, attempt_id: str) -> Iterable[tuple[str, Resources]]:
        """Yield id and size of the attempt's held starts."""

    def was_answered(self, container_id: str) -> bool:
        """Return whether a start was, or may have been, answered before: then "already running" is no failure."""


@dataclass(slots=True)
class _Services:
    """The aux services' data (the shuffle port) that one NodeManager process adds to each answer; None: not known."""

    data: tuple[StringBytesMapProto, ...] | None = None


class ServicesMeta:
    """The aux services' data of the NodeManager process that runs now; connections to an earlier one keep theirs."""

    def __init__(self) -> None:
        self.now = _Services()

    def forget(self) -> None:
        """Handle that the NodeManager's process may be another one from now on."""
        self.now = _Services()


@dataclass(slots=True)
class _Starting:
    """A startContainers whose answer is not complete."""

    call: Call
    requests: dict[str, StartContainerRequestProto]
    undecided: set[str]
    unanswered: int = 0
    waiting: list[str] = field(default_factory=list)
    answers: list[StartContainersResponseProto] = field(default_factory=list)
    failure: Failure | None = None
    tries: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Parked:
    """A call that waits until held starts have gone to the NodeManager."""

    call: Call
    until: set[str]


class Wire(Protocol):
    """The connection that the calls came on."""

    attempt_id: str

    def up(self, data: bytes) -> None:
        """Send to the NodeManager."""

    def answer(self, call: Call, data: bytes) -> None:
        """Answer a call of the client."""

    def own(self, method: str, body: bytes, then: Callable[[Answer], None]) -> None:
        """Call the NodeManager; `then` gets its answer."""

    def relay(self, call: Call, then: Callable[[Answer], None]) -> None:
        """Send a client's call as it came; `then` gets its answer instead of the client."""

    def emit(self, *commands: GateCommand) -> None:
        """Emit commands."""


class Calls:
    """The unfinished calls of one client."""

    def __init__(self, wire: Wire, node: Held, meta: ServicesMeta) -> None:
        self._wire, self._node, self._meta = wire, node, meta
        self._answers = ServerConnection()
        self._starts: list[_Starting] = []
        self._parked: list[_Parked] = []
        self._early: dict[str, list[_Starting]] = {}
        self._services: _Services | None = None
        """The data of the NodeManager process of this connection; None until that has sent something."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of calls that wait here for a decision."""
        if not self._starts and not self._parked:
            return 0
        return sum(len(s.call.raw) for s in self._starts) + sum(len(p.call.raw) for p in self._parked)

    @property
    def waits_for_starts(self) -> bool:
        """Whether calls wait here until held starts have gone to the NodeManager."""
        return bool(self._parked)

    def reached(self) -> None:
        """Handle that the NodeManager has sent something: this connection belongs to the process that runs now."""
        if self._services is None:
            self._services = self._meta.now

    def forget_services(self) -> None:
        """Handle the end of the connection to the NodeManager, which may be the end of its process."""
        if self._services is None or self._services is self._meta.now:
            self._meta.forget()

    def take(self, call: Call) -> None:
        """Handle a call of the client."""
        attempt_id, starts = self._wire.attempt_id, call.method == "startContainers"
        sizes = dict(self._node.held_by(attempt_id)) if attempt_id and not starts else {}
        try:
            if starts and attempt_id:
                self._start(call)
            elif call.method == "getContainerStatuses" and sizes:
                self._statuses(call, sizes)
            elif call.method == "stopContainers" and sizes:
                self._stop(call, sizes)
            elif call.method not in _PASS_FREELY and sizes:
                self._force(call, sizes)
            else:
                self._wire.up(call.raw)
        except (DecodeError, EncodeError, ValueError):
            self._wire.up(call.raw)  # the NodeManager reports the fault

    def _start(self, call: Call) -> None:
        requests = StartContainersRequestProto.FromString(call.body).start_container_request
        starts = [read_start(request, self._wire.attempt_id) for request in requests]
        by_id = {start.container_id: request for start, request in zip(starts, requests, strict=True)}
        if len(by_id) != len(starts) or not starts:
            self._wire.up(call.raw)
            return
        self._starts.append(_Starting(call, by_id, set(by_id)))
        self._wire.emit(*(StartWanted(start) for start in starts))

    def decided(self, event: GateDecided) -> None:
        """Handle the decision on a start; a client that closed meanwhile gets no answer."""
        cid = event.container_id
        for pending in [p for p in self._starts if cid in p.undecided]:
            pending.undecided.discard(cid)
            if event.hold:
                pending.waiting.append(cid)
            else:
                self._let_through(pending, cid)
            self._complete(pending)
            return
        if not event.hold:
            self._wire.emit(StartAnswered(cid, Outcome.REFUSED, "the client closed its connection before"))

    def _let_through(self, pending: _Starting, cid: str) -> None:
        """Forward one start: the call as it arrived when it has no other start, else a call of our own."""
        pending.unanswered += 1
        if len(pending.requests) == 1:
            self._wire.relay(pending.call, lambda answer: self._start_answered(pending, cid, answer, whole=True))
            return
        body = StartContainersRequestProto(start_container_request=[pending.requests[cid]]).SerializeToString()
        self._wire.own("startContainers", body, lambda answer: self._start_answered(pending, cid, answer, whole=False))

    def _start_answered(self, pending: _Starting, cid: str, answer: Answer, *, whole: bool) -> None:
        outcome, text = outcome_of(answer, cid)
        if answer is not None and is_early(text) and pending in self._starts and pending.tries[cid] < _TRIES:
            pending.tries[cid] += 1
            self._early.setdefault(cid, []).append(pending)
            self._wire.emit(StartEarly(cid))
            return
        repeated = bool(text) and outcome is Outcome.STARTED and self._node.was_answered(cid)
        if answer is not None and outcome is Outcome.LOST:
            outcome = Outcome.REFUSED  # its application master gets the NodeManager's own answer
        self._wire.emit(StartAnswered(cid, outcome, text))
        pending.unanswered -= 1
        if isinstance(answer, Response):
            learned = self._learn(answer)
            pending.answers.append(as_started(learned, cid) if repeated else learned)
        elif isinstance(answer, Failure):
            pending.failure = answer
        if not whole:
            self._complete(pending)
        elif pending in self._starts:
            self._starts.remove(pending)
            if repeated and pending.answers:
                self._wire.answer(pending.call, self._answers.response(pending.call, pending.answers[-1]))
            elif answer is not None:
                self._wire.answer(pending.call, answer.raw)

    def again(self, cid: str) -> None:
        """Resend a start that arrived before the NodeManager had registered with the ResourceManager."""
        for pending in self._early.pop(cid, ()):
            pending.unanswered -= 1
            self._let_through(pending, cid)

    def _complete(self, pending: _Starting) -> None:
        """Answer a call once each of its starts is decided and answered."""
        if pending.undecided or pending.unanswered or pending not in self._starts:
            return
        call = pending.call
        if pending.failure is not None:
            self._starts.remove(pending)
            self._wire.answer(call, renumber(pending.failure, call.call_id, call.client_id, call.retry_count))
            return
        services = self._services
        if services is None or services.data is None:
            pending.unanswered += 1
            self._wire.own("startContainers", b"", lambda answer: self._meta_answered(pending, answer))
            return
        self._starts.remove(pending)
        whole = merged(pending.answers)
        whole.succeeded_requests.extend(container_proto(cid) for cid in pending.waiting)
        if not whole.services_meta_data:
            whole.services_meta_data.extend(services.data)
        self._wire.answer(call, self._answers.response(call, whole))

    def _meta_answered(self, pending: _Starting, answer: Answer) -> None:
        pending.unanswered -= 1
        if isinstance(answer, Response):
            self._learn(answer)
        elif isinstance(answer, Failure):
            pending.failure = answer
            text = f"{answer.exception_class}: {answer.text}"
            self._wire.emit(*(HoldFailed(cid, text) for cid in pending.waiting))
        else:
            return
        self._complete(pending)

    def _learn(self, answer: Response) -> StartContainersResponseProto:
        message = StartContainersResponseProto.FromString(answer.body)
        if not message.IsInitialized():
            raise DecodeError("the NodeManager's answer lacks required fields")
        if self._services is not None:
            self._services.data = tuple(message.services_meta_data)
        return message

    def _statuses(self, call: Call, sizes: dict[str, Resources]) -> None:
        request = GetContainerStatusesRequestProto.FromString(call.body)
        ids = [container_id(proto) for proto in request.container_id]
        statuses = [waiting_status(cid, sizes[cid]) for cid in ids if cid in sizes]
        if not statuses:
            self._wire.up(call.raw)
            return
        rest = [proto for proto, cid in zip(request.container_id, ids, strict=True) if cid not in sizes]
        if not rest:
            self._wire.answer(call, self._answers.response(call, GetContainerStatusesResponseProto(status=statuses)))
            return

        def merge(answer: Response) -> None:
            whole = GetContainerStatusesResponseProto.FromString(answer.body)
            whole.status.extend(statuses)
            self._wire.answer(call, self._answers.response(call, whole))

        body = GetContainerStatusesRequestProto(container_id=rest).SerializeToString()
        self._wire.own(call.method, body, self._for_client(call, merge))

    def _stop(self, call: Call, sizes: dict[str, Resources]) -> None:
        request = StopContainersRequestProto.FromString(call.body)
        ids = [container_id(proto) for proto in request.container_id]
        starting = {cid for cid in ids if self._node.held_state(cid) is ContainerState.STARTING}
        if starting:
            self._parked.append(_Parked(call, starting))
            return
        stopped = [cid for cid in ids if cid in sizes]
        if not stopped:
            self._wire.up(call.raw)
            return
        self._wire.emit(*(StopWanted(cid) for cid in stopped))
        done = [container_proto(cid) for cid in stopped]
        rest = [proto for proto, cid in zip(request.container_id, ids, strict=True) if cid not in sizes]
        if not rest:
            self._wire.answer(call, self._answers.response(call, StopContainersResponseProto(succeeded_requests=done)))
            return

        def merge(answer: Response) -> None:
            whole = StopContainersResponseProto.FromString(answer.body)
            whole.succeeded_requests.extend(done)
            self._wire.answer(call, self._answers.response(call, whole))

        body = StopContainersRequestProto(container_id=rest).SerializeToString()
        self._wire.own(call.method, body, self._for_client(call, merge))

    def _force(self, call: Call, sizes: dict[str, Resources]) -> None:
        """Start the held containers that a call names before the call is sent; ids are found by their bytes."""
        named = {cid for cid in sizes if container_proto(cid).SerializeToString() in call.body}
        if not named:
            self._wire.up(call.raw)
            return
        self._parked.append(_Parked(call, named))
        self._wire.emit(*(ForceWanted(cid) for cid in sorted(named)))

    def going(self, cid: str) -> None:
        """Send the calls that waited for this container alone."""
        ready = []
        for parked in self._parked:
            parked.until.discard(cid)
            if not parked.until:
                ready.append(parked)
        self._parked = [p for p in self._parked if p.until]
        for parked in ready:
            self.take(parked.call)

    def _for_client(self, call: Call, merge: Callable[[Response], None]) -> Callable[[Answer], None]:
        def then(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self._wire.answer(call, renumber(answer, call.call_id, call.client_id, call.retry_count))
            elif answer is not None:
                merge(answer)

        return then

    def abandon(self) -> None:
        """Handle that the client is gone: drop its undecided starts and its parked calls."""
        for pending in self._starts:
            self._wire.emit(*(StartWithdrawn(cid) for cid in sorted(pending.undecided)))
        early = "the NodeManager had not registered when it came"
        self._wire.emit(*(StartAnswered(cid, Outcome.REFUSED, early) for cid in self._early))
        self._early.clear()
        self._starts.clear()
        self._parked.clear()
