"""Answers that application masters get before the ResourceManager's, with containers that the proxy granted itself.

A plain request for which containers were minted is answered at once (`own_grants: ahead`). It goes on to the
ResourceManager with those containers; what that answers goes with the next answer to the application master, whose next
request waits until then. So response ids are the same on both sides: both answers to a request of id n have n + 1.

Two things always hold. No such container starts before the ResourceManager answered: its sidecar holds the start until
it is confirmed, and it is journaled as confirmed before its sidecar hears of that. And a container that may have been
started is never reported to the ResourceManager again: a request is sent again, after its connection broke, only while
it has no answer, and then the answer to the last sending alone counts. What an earlier process did not confirm, or the
ResourceManager refused, ends here, released.

A request may ask for other containers, too, where the ResourceManager has nothing to grant for them in its answer
itself, and no reason to refuse them that is known here. If it does refuse them, they go with the next request, and the
application master meets the refusal there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.own_numbers import may_be_ahead
from rm_proxy.attempt.allocate_exchange import AllocateExchange, Parts
from rm_proxy.attempt.asks.ask_table import postpone
from rm_proxy.attempt.effects import Confirmed, DropHeld
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.attempt.registration.registration import AttemptState
from rm_proxy.attempt.repeated_requests import LastAnswer, OpenRequest, Undelivered, copied_rows
from rm_proxy.domain import ids
from rm_proxy.domain.message_checks import check_answer
from rm_proxy.domain.resources import beyond_memory_and_cpu, resources_of
from rm_proxy.minting.tokens import Minted

_LAST_ID: Final = (1 << 31) - 2
"""From here on response ids begin anew; the ResourceManager answers those requests first."""
_STANDING: Final = ("limit", "num_cluster_nodes", "application_priority")
"""Fields of each answer of the ResourceManager: they hold until its next one."""
_SHORT_BYTES: Final = 200
"""Answers up to this length are remembered as they came."""
UNCONFIRMED: Final = "the proxy granted it, and the ResourceManager did not confirm it"
UNFENCED: Final = "its sidecar was cut off before the ResourceManager knew it"


@dataclass(slots=True)
class EarlyCall:
    """A request that was answered early, and has no answer of the ResourceManager."""

    request: OpenRequest
    minted: list[Minted]
    """The containers that go with it; none once it was refused with them."""
    sendings: int = 0
    """How often it was sent."""

    @property
    def body(self) -> bytes:
        """The request as it goes out."""
        return self.request.body if self.request.rewritten is None else self.request.rewritten


class EarlyAnswers:
    """A machine: minted containers in, answers out; then the ResourceManager's answer or refusal in."""

    def __init__(self, parts: Parts, exchange: AllocateExchange) -> None:
        self._exchange, self._parts = exchange, parts
        self.call: EarlyCall | None = None
        """The open one: every other request of the application master waits until it has an answer."""
        self.standing: bytes | None = None
        """What is repeated of the ResourceManager's last answer to this registration, or all of a short one."""
        self._unconfirmed: dict[str, None] = {}
        """Containers that were granted early and are not confirmed."""

    def start_over(self) -> None:
        """Note that the application master will register and ask anew."""
        self.call = self.standing = None

    def note_answer(self, body: bytes) -> None:
        """Note the ResourceManager's last answer: its standing fields are repeated until the next one."""
        self.standing = body
        if len(body) > _SHORT_BYTES:
            standing = y.AllocateResponseProto()
            _copy_standing(y.AllocateResponseProto.FromString(body), standing)
            self.standing = standing.SerializePartialToString()

    def restore(self) -> None:
        """Look for containers that an earlier process granted early and did not confirm: the next round ends them."""
        self._unconfirmed = {live.id: None for live in self._parts.live if live.early}

    # Answers to the application master

    def answer(self, now_s: float) -> bytes | None:
        """Return the answer to the request in hand, with its minted containers; None where it is not to be early."""
        exchange, parts, minted = self._exchange, self._parts, self._parts.own_grants.open
        request, last = exchange.open, exchange.last
        if request is None or last is None or self.standing is None or not minted:
            return None
        if not self._fits(request, last, minted):
            return None
        answer = y.AllocateResponseProto(response_id=last.response_id + 1)
        _copy_standing(y.AllocateResponseProto.FromString(self.standing), answer)
        parts.arrivals.begin(early=True)
        parts.own_grants.deliver(answer)
        exchange.rewrite_news(answer, now_s)
        exchange.add_undelivered(answer)
        exchange.rewrite_limit(answer)
        data = answer.SerializeToString()
        exchange.deliver(answer, request.body, data, True)
        self.call = EarlyCall(request, list(minted))
        names = (ids.container_id_text(grant.container.id) for grant in minted)
        self._unconfirmed.update(dict.fromkeys(name for name in names if name in parts.live))
        return data

    def _fits(self, request: OpenRequest, last: LastAnswer, minted: list[Minted]) -> bool:
        """Return whether the ResourceManager has to answer nothing in a request at once, and should not refuse it."""
        if self._parts.registration.state is not AttemptState.REGISTERED or request.unread:
            return False
        if request.response_id != last.response_id or not 0 < last.response_id < _LAST_ID:
            return False
        if self._parts.table.takes_back:  # one may be on its way, which makes a container of ours superfluous
            return False
        if request.doubtful or request.releases or request.updates or request.late or request.ahead:
            return False
        if not all(may_be_ahead(grant.container.id.id) for grant in minted):
            return False
        sent, attempt = request.sent, self._parts.own_grants.attempt
        if sent.update_requests or sent.scheduling_requests or sent.blacklist_request.ByteSize():
            return False
        plain = not sent.ask or all(self._is_plain(row) for row in sent.ask)
        return plain and all(container.app_attempt_id == attempt for container in sent.release)

    def _is_plain(self, row: y.ResourceRequestProto) -> bool:
        """Return whether the ResourceManager grants nothing for a row at once, and should not refuse it.

        It looks at size and label (SchedulerUtils.normalizeAndValidateRequest), and grants OPPORTUNISTIC ones at once.
        """
        if not row.num_containers:
            return True
        opportunistic = row.execution_type_request.execution_type == y.OPPORTUNISTIC
        if opportunistic or row.node_label_expression or beyond_memory_and_cpu(row.capability):
            return False
        size, maximum = resources_of(row.capability), self._parts.router.maximum
        negative = size.memory_mb < 0 or size.vcores < 0
        return maximum is not None and not negative and size.fits(maximum)

    # Answers of the ResourceManager

    def on_answer(self, call: EarlyCall, body: bytes, now_s: float) -> None:
        """Handle the ResourceManager's answer to a call: its containers are confirmed.

        A container whose sidecar was gone meanwhile ends. It may have started without the sidecar. Then the
        ResourceManager did not know it, told its NodeManager to stop it, and will not report its end.
        """
        exchange, parts = self._exchange, self._parts
        if call is not self.call:
            return
        answer = y.AllocateResponseProto.FromString(body)
        check_answer(answer)
        self.call = None
        self.note_answer(body)
        exchange.close()
        parts.arrivals.begin()
        exchange.settle(answer, now_s)
        granted, minter = self._granted(call), parts.world.minter
        for live in granted:
            live.early = False
            parts.live.touch(live.id)
            if minter.fenced_since(live.node_id, live.granted_s):
                parts.emit(Confirmed(live.node_id, live.id, now_s - live.granted_s))
        self._end([live for live in granted if not minter.fenced_since(live.node_id, live.granted_s)], UNFENCED, now_s)
        undelivered = _without_standing(answer)
        if undelivered is not None:
            ends = parts.ends.delivered_ids if undelivered.completed_container_statuses else frozenset()
            arrived = parts.arrivals
            exchange.undelivered = Undelivered(undelivered, arrived.delivered, arrived.container_ids, ends)
            parts.notebook.undelivered(exchange.undelivered, arrived.granted)

    def on_refused(self, call: EarlyCall, now_s: float) -> bool:
        """Handle a refusal of a call; return whether it is to be sent again, without its containers and its asks.

        Those containers end here, and are released: the ResourceManager may know them all the same. The asks go with
        the next request.
        """
        if call is not self.call or not call.minted:
            return False
        self._end(self._granted(call), UNCONFIRMED, now_s)
        call.minted = []
        self._postpone_asks(call.request)
        return True

    def _postpone_asks(self, request: OpenRequest) -> None:
        """Have the asks of a request go with the next one: its application does not know that they were refused."""
        exchange, sent = self._exchange, request.sent
        if sent.ask:
            rows = copied_rows(postpone(self._parts.table, sent.ask))
            exchange.resend = [*(exchange.resend or ()), *rows]
            sent.ClearField("ask")
            request.rewritten = sent.SerializeToString()

    def give_up(self, call: EarlyCall) -> None:
        """Handle that the ResourceManager expects another request: the next one of the application master shows it."""
        if call is self.call:
            self.call = None
            self._exchange.on_refused()

    def round(self, now_s: float) -> None:
        """End containers that nobody will confirm any more."""
        if self._unconfirmed and self.call is None:
            live = self._parts.live
            abandoned = [c for name in self._unconfirmed if (c := live.get(name)) is not None and c.early]
            self._end(abandoned, UNCONFIRMED, now_s)
            self._unconfirmed.clear()

    def _granted(self, call: EarlyCall) -> list[HeldContainer]:
        """Return the containers of a call that its application still holds; they wait for no answer any more."""
        granted = []
        for name in [ids.container_id_text(grant.container.id) for grant in call.minted]:
            self._unconfirmed.pop(name, None)
            live = self._parts.live.get(name)
            if live is not None and live.early:
                granted.append(live)
        return granted

    def _end(self, containers: list[HeldContainer], reason: str, now_s: float) -> None:
        for live in containers:
            self._parts.emit(DropHeld(live.node_id, live.id, reason))
            self._parts.ends.preempt(live, reason, now_s)
        self._parts.router.charge()


def _copy_standing(source: y.AllocateResponseProto, answer: y.AllocateResponseProto) -> None:
    standing = y.AllocateResponseProto(num_cluster_nodes=source.num_cluster_nodes)
    for name in ("limit", "application_priority"):
        if source.HasField(name):
            getattr(standing, name).CopyFrom(getattr(source, name))
    answer.MergeFrom(standing)


def _without_standing(answer: y.AllocateResponseProto) -> y.AllocateResponseProto | None:
    """Return what an answer holds beside its id and the fields that the next answer repeats; None for nothing."""
    rest, probe = y.AllocateResponseProto(), y.AllocateResponseProto()
    rest.CopyFrom(answer)
    for name in ("response_id", *_STANDING):
        rest.ClearField(name)
    probe.CopyFrom(rest)
    probe.DiscardUnknownFields()  # those of later versions are repeated in each answer
    return rest if probe.ByteSize() else None
