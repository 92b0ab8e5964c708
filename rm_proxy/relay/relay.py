"""One application master's connection to the ResourceManager as a machine: bytes of either side in, commands out.

The handshake passes verbatim; its identifier names the application attempt, which is believed only after the
ResourceManager said SUCCESS. Bytes that cannot or need not be read pass unchanged.

An empty heartbeat is the hot path (lab/docs/benchmarks.md): `beat_up` and `beat_down` let it pass without a command or
an event of it, and leave whatever else comes to `from_am` and `from_rm`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from google.protobuf.message import DecodeError, EncodeError

from hadoop_rpc.connection import (
    AM_PROTOCOL,
    DISTRIBUTED_SCHEDULING_PROTOCOL,
    ClientConnection,
    ServerConnection,
    renumber,
    replace_body,
)
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import Call, ConnectionContext, Failure, Opaque, Response, SaslFrame
from hadoop_rpc.frames import BEFORE_LOGIN_BYTES, DEFAULT_MAX_FRAME_BYTES
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.sasl import SaslRelay, SaslResult
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.early_answers import EarlyCall
from rm_proxy.attempt.heartbeats import MAX_HEARTBEAT_BYTES
from rm_proxy.attempt.registration.registration import AttemptState
from rm_proxy.attempt.registration.resync import TEXT
from rm_proxy.domain import ids
from rm_proxy.domain.message_checks import MAX_REQUEST_BYTES, response_id_of
from rm_proxy.domain.response_ids import expected_id
from rm_proxy.relay.commands import (
    Called,
    Command,
    Identified,
    MintedRefused,
    Noted,
    PassedThrough,
    Replaced,
    ToAm,
    TookOver,
    ToRm,
)
from rm_proxy.relay.minted_frames import early_frame, with_minted, without_minted
from rm_proxy.relay.refusals import FORBIDDEN, NOT_OURS, NOT_REGISTERED, UNKNOWN_PROTOCOL, WRONG_ID

MAX_OUTSTANDING: Final = 64
"""Calls of one connection without an answer; an application master has one, a client that goes beyond is broken."""
LAST_CALL_ID: Final = 0x7FFFFFFF
"""Calls of ours are numbered from here downwards: application masters count up from 0."""

REGISTER: Final = "registerApplicationMaster"
ALLOCATE: Final = "allocate"
FINISH: Final = "finishApplicationMaster"


_PASSED: Final = Called(ALLOCATE, False)
_REWRITTEN: Final = Called(ALLOCATE, True)
_NOT_OF_MINTED: Final = NOT_OURS | {NOT_REGISTERED}
"""Refusals of a call that have nothing to do with containers of our own: they go to the application master."""


_BEAT_BYTES: Final = 4 + 1 + MAX_HEARTBEAT_BYTES
"""Behind the headers of a call: what its id may grow by, the length of the body, and the body of a heartbeat."""


class _Early:
    """A request that was answered early, as it is under way: under an id of ours, made like a call of the application
    master."""

    __slots__ = ("_sending", "call", "call_id", "early", "has_minted")

    def __init__(self, call_id: int, early: EarlyCall, call: Call) -> None:
        self.call_id, self.early, self.call = call_id, early, call
        self.has_minted = bool(early.minted)
        early.sendings += 1
        self._sending = early.sendings

    @property
    def is_replaced(self) -> bool:
        """Whether another connection has sent the request since: its answer counts."""
        return self.early.sendings != self._sending


class Relay:
    """The machine of one connection.

    attempts: returns the machine of an attempt by its id, made when it is new.
    Both `from_*` raise RemoteProtocolError when that side broke the protocol: close the connection, nothing else.
    """

    def __init__(self, attempts: Callable[[str], Attempt], max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.attempt: Attempt | None = None
        self.opaque = False
        self._attempts = attempts
        self._max_frame_bytes = max_frame_bytes
        self._am = ServerConnection(min(max_frame_bytes, BEFORE_LOGIN_BYTES))
        self._rm = ClientConnection(max_frame_bytes)
        self._sasl = SaslRelay()
        self._calls: dict[int, Call] = {}
        """Calls of the application master that the ResourceManager has not answered, by call id."""
        self._with_minted: dict[int, bytes] = {}
        """By their ids: the requests of those that went with containers of our own."""
        self._own: dict[int, Call] = {}
        """Calls of ours that are not answered, by call id: the application master's call for which each has the last
        answer repeated, after that call was refused for its response id."""
        self._early: _Early | None = None
        """The request that was answered early and is under way to the ResourceManager."""
        self._waiting: deque[Call] = deque()
        """Calls of the application master that came since."""
        self._beat_bytes = 0
        """The longest frame with the headers of the last call that can be a heartbeat; 0 if that was no allocate."""
        self._beat: bytes | None = None
        """The heartbeat that passed by `beat_up` and has no answer, as it came."""
        self._beat_id = 0

    @property
    def known(self) -> bool:
        """Whether the peer logged in, or is relayed unread."""
        return self.opaque or self.attempt is not None

    @property
    def kept_bytes(self) -> int:
        """Number of bytes stored of incomplete frames."""
        return self._am.unfinished_bytes + self._rm.unfinished_bytes

    @property
    def outstanding(self) -> bool:
        """Whether calls wait for their answers."""
        return bool(self._calls or self._own or self._beat is not None or self._early or self._waiting)

    def beat_up(self, data: bytes) -> bool:
        """Handle bytes of the application master that are one empty heartbeat; return whether they are, and pass.

        For any other bytes nothing happens: they are for `from_am`.
        """
        attempt = self.attempt
        if len(data) > self._beat_bytes or attempt is None or self._calls or self._own:
            return False
        parts = self._am.like_last(data)
        if parts is None or parts[0] & 1 or not attempt.exchange.passes_up(parts[2]):
            return False
        self._beat_id, self._beat = parts[0] >> 1, data
        return True

    def beat_down(self, data: bytes) -> bool:
        """Handle bytes of the ResourceManager that are the answer without news to such a heartbeat, and return whether
        they are, and pass.

        For any other bytes nothing happens: they are for `from_rm`.
        """
        attempt = self.attempt
        if self._beat is None or attempt is None:
            return False
        parts = self._rm.like_last(data)
        if parts is None or parts[0] != self._beat_id or attempt.has_news or not attempt.exchange.passes_down(parts[2]):
            return False
        self._beat = None
        return True

    def _unfold(self) -> None:
        """Make a call of the open heartbeat, since something else comes before its answer, or as its answer."""
        if self._beat is not None:
            self._calls[self._beat_id], self._beat = self._am.call_of(self._beat), None

    def from_am(self, data: bytes, now_s: float) -> list[Command]:
        """Handle bytes of the application master."""
        self._unfold()
        commands: list[Command] = []
        for event in self._am.receive_data(data):
            if type(event) is Call:
                self._call(event, now_s, commands)
            elif isinstance(event, Opaque):
                commands.append(ToRm(event.data))
            else:
                if isinstance(event, SaslFrame):
                    self._sasl_result(self._sasl.from_client(event), commands)
                elif isinstance(event, ConnectionContext) and event.protocol != AM_PROTOCOL:
                    if event.protocol == DISTRIBUTED_SCHEDULING_PROTOCOL and self.attempt and self.attempt.mints:
                        raise RemoteProtocolError("an application master speaks the protocol of distributed schedulers")
                    self._pass_through(f"it speaks {event.protocol}", False, commands)
                commands.append(ToRm(event.raw))
        return commands

    def from_rm(self, data: bytes, now_s: float) -> list[Command]:
        """Handle bytes of the ResourceManager."""
        self._unfold()
        commands: list[Command] = []
        for event in self._rm.receive_data(data):
            if type(event) is Response:
                self._response(event, now_s, commands)
            elif isinstance(event, Opaque):
                commands.append(ToAm(event.data))
            elif isinstance(event, SaslFrame):
                commands.append(ToAm(event.raw))
                self._sasl_result(self._sasl.from_server(event), commands)
            elif isinstance(event, Failure):
                self._failure(event, now_s, commands)
        return commands

    def _sasl_result(self, result: SaslResult | None, commands: list[Command]) -> None:
        if result is None:
            return
        if result.wrapped:
            self._pass_through(f"its protection is {result.qop or result.mechanism}", True, commands)
        elif result.identifier is not None:
            try:
                token = y.AMRMTokenIdentifierProto.FromString(result.identifier)
            except DecodeError as error:
                raise RemoteProtocolError(f"the login's token is not an AMRMToken ({error})") from error
            attempt_id = ids.attempt_id_text(token.appAttemptId)
            self.attempt = self._attempts(attempt_id)
            self._am.limit_frames(min(self._max_frame_bytes, MAX_REQUEST_BYTES))
            commands.append(Identified(attempt_id))

    def _pass_through(self, reason: str, encrypted: bool, commands: list[Command]) -> None:
        self.opaque = True
        self._am.pass_through()
        self._rm.pass_through()
        commands.append(PassedThrough(reason, encrypted))

    def _call(self, call: Call, now_s: float, commands: list[Command]) -> None:
        attempt, method = self.attempt, call.method
        is_allocate = method == ALLOCATE and call.protocol == AM_PROTOCOL
        self._beat_bytes = call.head_end + _BEAT_BYTES if is_allocate else 0
        if attempt is not None:
            if call.protocol == DISTRIBUTED_SCHEDULING_PROTOCOL and attempt.mints:
                commands.append(ToAm(self._am.error(call, FORBIDDEN, "only quicksilver may grant containers here")))
                return
            if len(self._calls) + len(self._own) + len(self._waiting) >= MAX_OUTSTANDING:
                raise RemoteProtocolError(f"more than {MAX_OUTSTANDING} calls are waiting for their answers")
            if self._early is not None or attempt.early.call is not None:
                self._waiting.append(call)
                self._send_early(call, commands)
                return
            if attempt.registration.state is not AttemptState.REGISTERED and self._take_over(call, commands):
                return
            if call.call_id in self._calls or call.call_id in self._own:
                raise RemoteProtocolError(f"call id {call.call_id} is that of a call without an answer")
            self._calls[call.call_id] = call
            if method == ALLOCATE and attempt.exchange.passes_up(call.body):
                commands += (ToRm(call.raw), _PASSED)
                return
        if method != ALLOCATE:
            commands += (ToRm(call.raw), Called(method, False))
            return
        early = None
        try:
            body = None if attempt is None else attempt.exchange.on_allocate(call.body, now_s)
            if attempt is not None and attempt.own_grants.minted and attempt.answers_early:
                alone = len(self._calls) == 1 and not self._own
                early = attempt.early.answer(now_s) if alone else None
        except (DecodeError, EncodeError) as error:  # a message without a required field can be read, but not written
            raise _no_message("allocate request", error) from error
        self._note(commands)
        if attempt is not None and early is not None:
            del self._calls[call.call_id]
            commands += (ToAm(self._am.response(call, early), tuple(attempt.take_effects())), _REWRITTEN)
            self._send_early(call, commands)
        elif attempt is not None and attempt.own_grants.minted:
            request = self._with_minted[call.call_id] = call.body if body is None else body
            commands += (ToRm(with_minted(call, request, attempt.own_grants.minted)), _REWRITTEN)
        else:
            commands += (ToRm(call.raw), _PASSED) if body is None else (ToRm(replace_body(call, body)), _REWRITTEN)

    def _send_early(self, call: Call, commands: list[Command]) -> None:
        """Send a request that was answered early, unless it is under way; `call`: any one of the application master."""
        early = self.attempt.early.call if self.attempt is not None else None
        if self._early is None and early is not None:
            call_id = self._free_id()
            self._early = _Early(call_id, early, call)
            commands.append(ToRm(early_frame(call, early, call_id)))

    def _go_on(self, now_s: float, commands: list[Command]) -> None:
        """Handle the calls that waited for the answer to such a request."""
        while self._waiting and self._early is None:
            self._call(self._waiting.popleft(), now_s, commands)

    def _early_answered(self, sent: _Early, response: Response, now_s: float, commands: list[Command]) -> None:
        attempt, self._early = self.attempt, None
        assert attempt is not None
        if sent.is_replaced:
            commands.append(Replaced(attempt.id))
            return
        try:
            body = without_minted(response).body if sent.has_minted else response.body
            attempt.early.on_answer(sent.early, body, now_s)
        except (DecodeError, EncodeError) as error:
            raise _no_message("allocate answer", error) from error
        self._note(commands)
        commands.append(ToAm(b"", tuple(attempt.take_effects())))
        self._go_on(now_s, commands)

    def _early_failed(self, sent: _Early, failure: Failure, now_s: float, commands: list[Command]) -> None:
        """Handle a refusal of such a request: without its containers it goes once more.

        What that is refused with is the answer to a call that waits; the next one sends it again.
        """
        attempt, self._early, exception = self.attempt, None, failure.exception_class
        assert attempt is not None
        if sent.is_replaced:
            commands.append(Replaced(attempt.id))
            return
        refusal = b""
        if exception == NOT_REGISTERED:
            attempt.on_not_registered(now_s)
        elif attempt.early.on_refused(sent.early, now_s):
            if exception == UNKNOWN_PROTOCOL:
                attempt.own_grants_refused(failure.text, now_s)
            commands.append(MintedRefused(attempt.id, f"{exception}: {failure.text}"))
            self._send_early(sent.call, commands)
        elif exception == WRONG_ID:
            attempt.early.give_up(sent.early)
        elif self._waiting:
            call = self._waiting.popleft()
            refusal = self._am.error(call, exception, failure.text, fatal=failure.fatal, code=failure.code)
        self._note(commands)
        commands.append(ToAm(refusal, tuple(attempt.take_effects())))
        self._go_on(now_s, commands)

    def _take_over(self, call: Call, commands: list[Command]) -> bool:
        """Answer a call of an attempt that an earlier process knew, if the answer is ours; return whether it is."""
        attempt = self.attempt
        assert attempt is not None
        data, step = None, ""
        if call.method == REGISTER and (body := attempt.registration_answer()) is not None:
            data, step = self._am.response(call, body), "registered"
        elif call.method == ALLOCATE:
            response_id = _response_id(call.body)
            if attempt.refuses(response_id):
                data, step = self._am.error(call, NOT_REGISTERED, TEXT), "refused"
            elif attempt.go_astray(response_id):
                step = "astray"
        if step:
            commands.append(TookOver(attempt.id, step))
        if data is not None:
            self._note(commands)
            commands.append(ToAm(data))
        return data is not None

    def _note(self, commands: list[Command]) -> None:
        attempt = self.attempt
        note = attempt.take_note() if attempt is not None else None
        if attempt is not None and note is not None:
            commands.append(Noted(attempt.id, note))

    def _response(self, response: Response, now_s: float, commands: list[Command]) -> None:
        if self._early is not None and response.call_id == self._early.call_id:
            self._early_answered(self._early, response, now_s, commands)
            return
        attempt, body, own = self.attempt, None, False
        call = self._calls.pop(response.call_id, None)
        if call is None:
            call, own = self._answered(response.call_id)
        if attempt is None or call is None:
            commands.append(ToAm(response.raw))
            return
        method = call.method
        try:
            if self._with_minted and self._with_minted.pop(response.call_id, None) is not None:
                response = without_minted(response)
            if method == ALLOCATE and not own and attempt.exchange.passes_down(response.body):
                pass
            elif method == ALLOCATE:
                body = attempt.exchange.on_answer(response.body, now_s)
                if attempt.answers_early:
                    attempt.early.note_answer(response.body)
            elif method == REGISTER:
                body = attempt.on_registered(response.body, now_s)
            elif method == FINISH and y.FinishApplicationMasterResponseProto.FromString(response.body).isUnregistered:
                attempt.on_finished()
        except (DecodeError, EncodeError) as error:
            raise _no_message(f"{method.removesuffix('ApplicationMaster')} answer", error) from error
        self._note(commands)
        effects = tuple(attempt.take_effects())
        if own:
            raw = self._am.response(call, response.body if body is None else body)
        else:
            raw = response.raw if body is None else replace_body(response, body)
        commands.append(ToAm(raw, effects))

    def _answered(self, call_id: int) -> tuple[Call | None, bool]:
        """Return the application master's call that an answer is for, and whether it came to a call of ours."""
        call = self._calls.pop(call_id, None)
        own = self._own.pop(call_id, None) if call is None else None
        return (call, False) if own is None else (own, True)

    def _failure(self, failure: Failure, now_s: float, commands: list[Command]) -> None:
        if self._early is not None and failure.call_id == self._early.call_id:
            self._early_failed(self._early, failure, now_s, commands)
            return
        (call, own), attempt = self._answered(failure.call_id), self.attempt
        if attempt is None or call is None or call.method != ALLOCATE:
            commands.append(ToAm(failure.raw))
            return
        exception = failure.exception_class
        request = self._with_minted.pop(failure.call_id, None)
        if request is not None and exception not in _NOT_OF_MINTED and not failure.fatal:
            self._send_without_minted(call, request, failure, now_s, commands)
            return
        if exception == WRONG_ID and not own and self._asks_again(call, failure.text, commands):
            return
        if exception == NOT_REGISTERED:
            attempt.on_not_registered(now_s)
        else:
            attempt.exchange.on_refused("" if exception in NOT_OURS else exception)
        raw = failure.raw
        if own:
            raw = self._am.error(call, exception, failure.text, fatal=failure.fatal, code=failure.code)
        self._note(commands)
        commands.append(ToAm(raw, tuple(attempt.take_effects())))

    def _send_without_minted(
        self, call: Call, request: bytes, failure: Failure, now_s: float, commands: list[Command]
    ) -> None:
        """Send a call again without containers of our own: its failure may be due to them."""
        attempt = self.attempt
        assert attempt is not None
        attempt.own_grants.give_back()
        if failure.exception_class == UNKNOWN_PROTOCOL:
            attempt.own_grants_refused(failure.text, now_s)
        self._calls[call.call_id] = call
        self._note(commands)
        why = f"{failure.exception_class}: {failure.text}"
        commands += (MintedRefused(attempt.id, why), ToRm(replace_body(call, request)))

    def _asks_again(self, call: Call, text: str, commands: list[Command]) -> bool:
        """Have the last answer repeated for a call that was refused for its response id; return whether it can be."""
        attempt, expected = self.attempt, expected_id(text)
        if attempt is None or expected is None or (body := attempt.exchange.on_wrong_id(expected)) is None:
            return False
        self._note(commands)
        frame = self._own_call(call, body)
        commands += (TookOver(attempt.id, "wrong-id"), ToRm(frame))
        return True

    def _free_id(self) -> int:
        """Return an id for a call of ours."""
        call_id = LAST_CALL_ID
        while call_id in self._own or call_id in self._calls:
            call_id -= 1
        return call_id

    def _own_call(self, call: Call, body: bytes) -> bytes:
        """Return the frame of a call of ours, made like one of the application master, which its answer is for."""
        call_id = self._free_id()
        self._own[call_id] = call
        return renumber(call._replace(raw=replace_body(call, body)), call_id)


def _response_id(body: bytes) -> int:
    try:
        return response_id_of(body)
    except DecodeError as error:
        raise _no_message("allocate request", error) from error


def _no_message(name: str, error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"the {name} is no protobuf message of its kind ({error})")
