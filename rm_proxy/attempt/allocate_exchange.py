"""Rewrites the allocate requests and answers of one application attempt.

The application master must never notice: counts, priorities, capabilities, request ids, execution types and
completions stay consistent in what it sees (lab/docs/architecture.md, What always holds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.errors import PolicyFaultError
from policies.value_types import replace
from rm_proxy.attempt.asks.ask_table import AskTable, is_rewritten, row_count
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.delivery.allocations import Allocations
from rm_proxy.attempt.delivery.container_events import ContainerEvents
from rm_proxy.attempt.effects import BadTags, Effect, Faulted, Refused
from rm_proxy.attempt.heartbeats import MAX_HEARTBEAT_BYTES, head_after, id_before_rest, progress_in, split_answer
from rm_proxy.attempt.held_containers import HeldContainers
from rm_proxy.attempt.lost_containers import LOST_STATES
from rm_proxy.attempt.own_grants import OwnGrants
from rm_proxy.attempt.promotion_requests import Promotions
from rm_proxy.attempt.registration.registration import AttemptEvent, AttemptState, Registration
from rm_proxy.attempt.registration.resync import doubt, send_later
from rm_proxy.attempt.repeated_requests import (
    LastAnswer,
    OpenRequest,
    Undelivered,
    joined,
    merge,
    merged,
    prepend,
    without_ours,
)
from rm_proxy.attempt.routing.router import Router
from rm_proxy.attempt.routing.steering import Steering
from rm_proxy.attempt.snapshot_changes import SnapshotChanges
from rm_proxy.domain import ids
from rm_proxy.domain.comparison import Question
from rm_proxy.domain.message_checks import (
    MAX_ROWS_KEPT,
    check_answer,
    check_request,
    response_id_of,
    too_large,
)
from rm_proxy.domain.resources import resources_of, set_resources
from rm_proxy.domain.response_ids import id_before
from rm_proxy.estimates.duration_tags import request_hints
from rm_proxy.job_classes.exclusions import Exclusions

_NO_HOSTS: Final[frozenset[str]] = frozenset()
MAX_BAD_TAGS: Final = 20
"""Unreadable allocation tags of an attempt that are reported."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an attempt that its exchanges work with."""

    registration: Registration
    world: ClusterView
    table: AskTable
    live: HeldContainers
    router: Router
    steering: Steering
    ends: Completions
    arrivals: Allocations
    own_grants: OwnGrants
    promotion: Promotions
    notebook: SnapshotChanges
    containers: ContainerEvents
    emit: Callable[[Effect], None]
    give_up: Callable[[str], y.AllocateRequestProto]
    """Ends the tracking of the attempt's asks, and returns what has the ResourceManager hold them as they came."""


LONG_BYTES: Final = 50_000
"""Requests of an attempt that costs too much are not read from this length on: some hundred rows (own)."""


def _strip(call: OpenRequest, exclusions: Exclusions, blacklist: frozenset[str]) -> None:
    """Have hosts that are kept for others sent again by `exclusions` alone."""
    if call.late is not None:
        exclusions.strip(call.late, blacklist)


class _RowBound:
    """How many rows are remembered at most: they are counted where that would be too many."""

    __slots__ = ("at_most",)

    def __init__(self) -> None:
        self.at_most = MAX_ROWS_KEPT

    def exceeded(self, table: AskTable, more: int) -> bool:
        """Return whether more rows are too many to remember."""
        self.at_most += more
        if self.at_most > MAX_ROWS_KEPT:
            self.at_most = row_count(table) + more
        return self.at_most > MAX_ROWS_KEPT


class AllocateExchange:
    """Requests and answers are serialised AllocateRequest/ResponseProtos."""

    def __init__(self, parts: Parts) -> None:
        self._registration, self._world, self._effect = parts.registration, parts.world, parts.emit
        self._table, self._live, self._router, self._steering = parts.table, parts.live, parts.router, parts.steering
        self._ends, self._arrivals, self._promotion = parts.ends, parts.arrivals, parts.promotion
        self._notebook, self._containers = parts.notebook, parts.containers
        self._own_grants, self._give_up = parts.own_grants, parts.give_up
        self.exclusions = Exclusions()
        self.allocates = 0
        self._bad_tags: set[str] = set()
        """Allocation tags that were reported as unreadable."""
        self.last: LastAnswer | None = None
        self.undelivered: Undelivered | None = None
        """What the ResourceManager answered since then, to a request that was answered early."""
        self._repeats_itself = False
        """Whether the answer to come may be one that the application master has."""
        self.resend: list[y.ResourceRequestProto] | None = None
        """Rows of forgotten keys that go out again; None while no row is in doubt."""
        self._request_id: int | None = None
        """Id of the last request of the application master."""
        self.open: OpenRequest | None = None
        """The request without an answer."""
        self._late: y.AllocateRequestProto | None = None
        """Content of a repeated request that the first one lacked; it is sent with the next."""
        self._last_repeated = False
        """Whether the last request asked for the last answer again."""
        self._answer_came = True
        """Whether an answer came since the last request: only then an ask can have been left ungranted."""
        self._reported_ends: frozenset[str] = frozenset()
        """Completions in the last answer, until the next request confirms them."""
        self._rows = _RowBound()
        self._costly = ""
        """Why the next request passes unread, and long ones after it; "" where they are read."""
        self._spare: OpenRequest | None = None
        """The last heartbeat that was answered without news: the next one is noted in the same object."""
        self._no_news: bytes | None = None
        """The last answer without news behind its response id; None if it does not begin with that."""

    @property
    def at_rest(self) -> bool:
        """Whether an exchange that is empty in both directions would change nothing."""
        asks = self._table.busy or self._router.undecided or self._router.reconsiders or self.resend is not None
        asks = asks or self.exclusions.due(self._kept_off())
        taken_over = self._registration.resync is not None or self._late is not None or self.open is not None
        news = self._registration.attempt_id in self._world.hooks.news or self.undelivered is not None
        return not (news or asks or taken_over or self._reported_ends or self._ends.open or self._promotion.to_ask)

    @property
    def unseen(self) -> LastAnswer | None:
        """The last answer, if the application master asked for it again because it may not have received it."""
        return self.last if self._last_repeated else None

    def start_over(self) -> None:
        """Forget all asks and answers: the application master will register and ask anew."""
        self.last = self.open = self.resend = self._late = self._request_id = None
        self.exclusions.start_over()
        self._costly = ""
        self._answer_came = True
        self._reported_ends = frozenset()
        self._own_grants.start_over()

    # Requests

    def pass_from_now(self, why: str) -> None:
        """Let the next request pass unread, and the attempt's asks as they are: reading them costs too much."""
        self._costly = why

    def passes_up(self, body: bytes) -> bool:
        """Handle an empty heartbeat to which nothing is to be added; return whether the request is one.

        It passes as it came. For any other request nothing happens: it is for `on_allocate`.
        """
        last = self.last
        if last is None or len(body) > MAX_HEARTBEAT_BYTES or (head := head_after(last.response_id)) is None:
            return False
        if (progress := progress_in(body, head)) is None or not self._quiet:
            return False
        self.allocates += 1
        self._request_id, self._router.progress = last.response_id, progress
        self._last_repeated = self._answer_came = False
        call, self._spare = self._spare, None
        if call is None:
            call = OpenRequest(0, b"", None, beat=True)
        call.response_id, call.body = last.response_id, body
        self.open = call
        return True

    @property
    def _quiet(self) -> bool:
        """Whether an empty request of a registered application passes unchanged, and nothing is to be done for it."""
        registration, table = self._registration, self._table
        return registration.state is AttemptState.REGISTERED and not (
            self.open is not None
            or self._late is not None
            or self._reported_ends
            or self._costly
            or self.resend is not None
            or registration.resync is not None
            or self._ends.releases.to_send
            or self._promotion.to_ask
            or table.busy
            or table.sums.in_flight
            or self._router.reconsiders
            or self._steering.taken_back is not None
            or self._world.hooks.kept_off
            or self.exclusions.busy
        )

    def on_allocate(self, body: bytes, now_s: float) -> bytes | None:
        """Handle a request; returns it rewritten for the ResourceManager, or None if it passes unchanged."""
        self.allocates += 1
        self._own_grants.minted = ()
        if self._registration.state is AttemptState.FINISHED:
            return None
        costly = self._costly and (self._costly if self._tracked or len(body) > LONG_BYTES else "")
        if why := costly or too_large(body):
            return self._pass_unread(body, why)
        request = y.AllocateRequestProto.FromString(body)
        check_request(request)
        tracked = self._tracked
        if tracked and request.ask and self._rows.exceeded(self._table, len(request.ask)):
            return self._pass_unread(body, f"it has more than {MAX_ROWS_KEPT} rows")
        moved = self._registration.resync is not None and self._continue(request)
        self._request_id, self._router.progress = request.response_id, min(max(request.progress, 0.0), 1.0)
        last, first = self.last, self.open
        if request.scheduling_requests:
            self._read_hints(request.scheduling_requests)
        response_id = request.response_id
        lowered = self.undelivered is not None and self.undelivered.lower(request)
        self._last_repeated = last is not None and response_id != last.response_id and last.repeats(response_id)
        if self._reported_ends and not self._last_repeated:
            self._ends.unheard -= self._reported_ends
            self._reported_ends = frozenset()
        if last is not None and self._last_repeated:
            self._late = last.late(request) if body != last.request else None
            moved = moved or request.response_id != last.id_before
            request.response_id = last.id_before
            return request.SerializeToString() if moved else None  # the ResourceManager ignores it
        if first is not None and first.response_id == request.response_id:
            if first.body == body:
                self._own_grants.minted = self._own_grants.open
                return first.rewritten
        else:
            first = None
            if self._own_grants.open:
                self._own_grants.give_back()
        late, self._late = self._late, None
        if late is not None:
            prepend(late, request)
        changed = self._rewrite(request, now_s) or late is not None or moved or lowered
        call = OpenRequest(request.response_id, body, None, ahead=late)
        if first is not None:
            call, changed = merge(first, request, body), True
        if self._own_grants.fresh or self._own_grants.open:
            self._own_grants.attach()
        call.rewritten = request.SerializeToString() if changed else None
        if moved:
            doubt(call)
            _strip(call, self.exclusions, self._router.blacklist)
        self.open = call
        return call.rewritten

    @property
    def _tracked(self) -> bool:
        return self._registration.state is not AttemptState.UNTRACKED

    def _pass_unread(self, body: bytes, why: str) -> bytes | None:
        """Let a request pass that is too large to be read; from it on the attempt's asks pass as they are.

        What the ResourceManager holds of ours is taken back before it. Repeated, it has the effect that it has without
        the proxy.
        """
        head = y.AllocateRequestProto(response_id=response_id_of(body))
        moved = self._registration.resync is not None and self._continue(head)
        self._request_id, last, first = head.response_id, self.last, self.open
        if self._tracked:
            self._late = merged(self._late, self._give_up(why))
            self.resend = None
        self._last_repeated = last is not None and last.repeats(head.response_id)
        if last is not None and self._last_repeated:
            moved = moved or last.id_before != head.response_id
            head.response_id = last.id_before
            return joined(None, body, head) if moved else None  # the ResourceManager ignores it
        self._ends.unheard -= self._reported_ends
        self._reported_ends = frozenset()
        ahead, self._late = self._late, None
        if self._own_grants.open:
            self._own_grants.give_back()
        if first is not None and first.response_id == head.response_id:
            if first.unread and first.body == body:
                self._late = ahead
                return first.rewritten
            ahead = merged(without_ours(first), ahead)
            if ahead is not None:
                self.exclusions.strip(ahead, self._router.blacklist)
        self.open = OpenRequest(head.response_id, body, None, ahead=ahead, unread=True)
        if ahead is not None or moved:
            self.open.rewritten = joined(ahead, body, head if moved else None)
        return self.open.rewritten

    def _read_hints(self, requests: Iterable[y.SchedulingRequestProto]) -> None:
        """Read the durations that SchedulingRequests name in their allocation tags; all else of them passes unread."""
        hints, bad = request_hints((request.priority.priority, request.allocationTags) for request in requests)
        self._world.durations.named(self._registration.app_id, hints)
        unreported = tuple(tag for tag in bad if tag not in self._bad_tags)[: MAX_BAD_TAGS - len(self._bad_tags)]
        if unreported:
            self._bad_tags.update(unreported)
            self._effect(BadTags(self._registration.app_id, unreported))

    def _rewrite(self, request: y.AllocateRequestProto, now_s: float) -> bool:
        listed = request.blacklist_request
        if listed.ByteSize():
            added = self._router.blacklist.union(listed.blacklist_additions)
            self._router.blacklist = added.difference(listed.blacklist_removals)
        changed = self._ends.rewrite_releases(request) if request.release or self._ends.releases.to_send else False
        if request.update_requests or self._promotion.to_ask:
            changed = self._promotion.rewrite_request(request) or changed
        if not self._tracked:
            return changed
        taking_over = self._registration.resync is not None
        if self._registration.resync is not None:
            request.ask.extend(self._registration.resync.zeros(request.ask))
        if request.ask or self._table.busy or self.resend is not None or self._router.reconsiders or taking_over:
            changed = self._rewrite_asks(request, now_s) or changed
            self._router.charge()
        kept_off = self._world.hooks.kept_off or self._steering.taken_back is not None
        hosts = self._kept_off() if kept_off else _NO_HOSTS
        if (hosts or self.exclusions.busy) and self.exclusions.rewrite(request, hosts, self._router.blacklist):
            self._notebook.kept_off(self.exclusions.maybe)
            changed = True
        self._answer_came = False
        return changed

    def _kept_off(self) -> frozenset[str]:
        """Return the hosts on which the ResourceManager is to start no guaranteed container of the application now."""
        hosts = _NO_HOSTS if self._steering.taken_back is None else self._steering.crowded()
        for kept_off in self._world.hooks.kept_off:
            hosts |= kept_off(self._router.app_id)
        return hosts

    def _rewrite_asks(self, request: y.AllocateRequestProto, now_s: float) -> bool:
        table = self._table
        self._router.begin()
        touched = table.update(request.ask)
        if self._registration.resync is not None:
            self._registration.resync.adopt(table)
        self._router.route(touched, now_s, self._answer_came)
        if table.sums.unplaced or table.by_private or self._steering.queued:
            self._steering.place_all(now_s, self._answer_came)
        again, self.resend = self.resend, None
        rewrites = again is not None or table.dirty or any(entry.rows.rewritten for entry in touched)
        mints = self._world.hooks.own_grants and self._registration.resync is None
        mint = partial(self._own_grants.mint, now_s=now_s) if mints else None
        rows = [*(again or ()), *table.rows_for_rm(mint)]
        self._notebook.note_rows(rows)
        if not rewrites:
            return False
        del request.ask[:]
        request.ask.extend(rows)
        return True

    def on_refused(self, why: str = "") -> None:
        """Note that the ResourceManager refused a request: it has handled none of its guaranteed rows.

        The application master sends its own rows again; ours, and our releases, go out with the next request.
        why: the exception, if our rewriting may have caused it.
        """
        call, self.open = self.open, None
        self.exclusions.refused()
        if self._own_grants.open:
            self._own_grants.give_back()
        if call is None:
            return
        if not self._tracked:
            self._late = call.ahead
        if call.unread:
            self._ends.releases.answered()
            return
        if call.rewritten is not None and why:
            self._effect(Refused(self._registration.app_id, why))
        self._ends.releases.answered()
        sent = call.sent
        mixed = [row for row in sent.ask if is_rewritten(self._table, row)]
        self.resend = [*(self.resend or ()), *self._table.doubt(mixed)]
        self._ends.releases.add(*(ids.copied(c) for c in sent.release if ids.container_id_text(c) in self._ends))
        self._promotion.ask_again(sent.update_requests)

    def on_wrong_id(self, expected: int) -> bytes | None:
        """Handle the refusal of a request for its id; returns a request that has the last answer repeated.

        expected: the id of that answer. An earlier process may have received it, and not passed it on. What the refused
        request holds goes out with the next one. None if nothing is known of the attempt any more.
        """
        if self._registration.state is AttemptState.FINISHED:
            return None
        call, last = self.open, self.last
        if call is not None and call.unread:
            return None
        if self._own_grants.open:
            self._own_grants.give_back()
        if call is not None:
            (doubt if self._tracked else send_later)(call)
            _strip(call, self.exclusions, self._router.blacklist)
        if last is not None and last.response_id == expected:
            self._last_repeated = True
            if self._request_id is not None:
                last.request_id = self._request_id
            self.close()
        else:
            self._repeats_itself = True
        return y.AllocateRequestProto(response_id=id_before(expected)).SerializeToString()

    def _continue(self, request: y.AllocateRequestProto) -> bool:
        """Give a request the id from before the take-over; returns whether that changed it."""
        resync = self._registration.resync
        assert resync is not None
        if request.response_id == 0 and resync.id is not None:
            request.response_id = resync.id
            return True
        if not resync.busy:
            self._registration.follow(
                AttemptEvent.RESYNCED
            )  # the application master has an answer since: it goes on by itself
            self._notebook.resync(None)
        return False

    # Answers

    def passes_down(self, body: bytes) -> bool:
        """Handle an answer without news to an empty heartbeat, and return whether the answer is one.

        It equals the last one without news but for its id. For any other answer nothing happens: it is for `on_answer`.
        """
        call = self.open
        if call is None or not call.beat or self._no_news is None or self._ends.to_tell or self._live.count_q:
            return False
        if self.undelivered is not None:
            return False
        if self._registration.attempt_id in self._world.hooks.news:
            return False
        if (response_id := id_before_rest(body, self._no_news)) is None or response_id == call.response_id:
            return False
        self._containers.answers += 1
        self._answer_came, self.open = True, None
        self._ends.releases.answered()
        self.last = LastAnswer(response_id, call.response_id, call.body, None, {}, [], [])
        if call.late is None:
            self._spare = call
        return True

    def on_answer(self, body: bytes, now_s: float) -> bytes | None:
        """Handle an answer; returns it rewritten for the application master, or None if it passes unchanged."""
        if self._registration.state is AttemptState.FINISHED:
            return None
        answer = y.AllocateResponseProto.FromString(body)
        check_answer(answer)
        if self.last is not None and answer.response_id == self.last.response_id:
            if self._own_grants.open:
                self._own_grants.give_back()
            return self.last.rewritten  # the ResourceManager repeats itself: so do we
        request = self.close()
        self._arrivals.begin()
        if self._own_grants.open:
            self._own_grants.deliver(answer)
        news, changed = self.settle(answer, now_s)
        if self.undelivered is not None:
            news = changed = self.add_undelivered(answer)
        changed = self.rewrite_limit(answer) or changed
        rewritten = answer.SerializeToString() if changed else None
        self.deliver(answer, request, rewritten, news)
        if not news and rewritten is None and (parts := split_answer(body)) is not None:
            self._no_news = parts[1]
        return rewritten

    def settle(self, answer: y.AllocateResponseProto, now_s: float) -> tuple[bool, bool]:
        """Bring the attempt up to an answer of the ResourceManager, and the answer into the application's terms.

        Returns whether it holds news, and whether it changed.
        """
        lost = self._live.count_q > 0 and self._own_grants.lost.settle(answer)
        if self._repeats_itself:
            self._repeats_itself = False
            lost = self._arrivals.drop_known(answer) or lost
        news = bool(
            answer.allocated_containers
            or answer.completed_container_statuses
            or answer.updated_nodes
            or answer.updated_containers
            or answer.update_errors
            or answer.containers_from_previous_attempts
            or self._ends.to_tell
        )
        changed = (news and self.rewrite_news(answer, now_s)) or lost
        write = self._world.hooks.news.pop(self._registration.attempt_id, None)
        if write is not None and write(answer, now_s):
            news = changed = True
        self._table.answered()
        return news, changed

    def add_undelivered(self, answer: y.AllocateResponseProto) -> bool:
        """Put what the ResourceManager answered before into an answer; returns whether there is any."""
        late, self.undelivered = self.undelivered, None
        if late is None:
            return False
        late.join(answer)
        arrived = self._arrivals
        for name, count in late.delivered.items():
            arrived.delivered[name] = arrived.delivered.get(name, 0) + count
        arrived.container_ids += late.container_ids
        self._ends.delivered_ids |= late.end_ids
        self._notebook.undelivered(None)
        return True

    def deliver(self, answer: y.AllocateResponseProto, request: bytes, rewritten: bytes | None, news: bool) -> None:
        """Note what the application master is answered: `rewritten`, or what came where that is None."""
        arrived, ends = self._arrivals, list(answer.completed_container_statuses)
        if ends or self._reported_ends:
            self._reported_ends = self._ends.delivered_ids if ends else frozenset()
        request_id = id_before(answer.response_id) if self._request_id is None else self._request_id
        self.last = LastAnswer(
            answer.response_id, request_id, request, rewritten, arrived.delivered, arrived.container_ids, ends
        )
        if news:
            self._notebook.answered(self.last, arrived.granted)

    def rewrite_news(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        """Handle containers, completions and nodes in an answer; returns whether it changed."""
        self._router.begin()
        changed = bool(answer.allocated_containers) and self._arrivals.rewrite_allocated(answer, now_s)
        if answer.containers_from_previous_attempts:
            changed = self._arrivals.adopt(answer.containers_from_previous_attempts, now_s) or changed
        if answer.updated_containers or answer.update_errors:
            changed = self._promotion.rewrite_answer(answer, now_s) or changed
            changed = self._arrivals.rewrite_updated(answer) or changed
        if answer.completed_container_statuses or self._ends.to_tell:
            changed = self._ends.rewrite_completed(answer, now_s) or changed
        self._promotion.prune(now_s)
        for report in answer.updated_nodes:
            node_id = ids.node_id_text(report.nodeId)
            self._world.inventory.node_changed(node_id, report.node_state == y.NS_RUNNING)
            if report.node_state in LOST_STATES:
                self._own_grants.lost.node_lost(node_id)
        self._router.charge()
        return changed

    def close(self) -> bytes:
        """End the call that is answered now, and return it; content that may not have been seen is sent again."""
        self._containers.answers += 1
        self._answer_came = True
        call, self.open = self.open, None
        self._ends.releases.answered()
        if call is not None and call.late is not None:
            self._late = call.late
            self.exclusions.refused()
        elif self.exclusions.busy:
            self.exclusions.answered()
        if call is not None and (call.doubtful or call.releases):
            self.resend = [*(self.resend or ()), *self._table.doubt(call.doubtful)]
            self._ends.releases.add(*call.releases)
        if call is not None and call.updates:
            self._promotion.ask_again(call.updates)
        return call.body if call is not None and not call.unread else b""

    # Headroom

    def rewrite_limit(self, answer: y.AllocateResponseProto) -> bool:
        """Report to the application the headroom that its framework expects; the first answer stays untouched."""
        queueable = self._live.count_q or self._table.sums.open_q
        app = self._router.app if queueable and self._containers.answers > 1 and answer.HasField("limit") else None
        if app is None:
            return False
        app = replace(app, next_q=self._router.next_queueable())
        limit = resources_of(answer.limit)
        try:
            headroom = self._world.policies.headroom(limit, app)
            self._world.placer.compare(Question("headroom", app, headroom, lambda rival: rival.headroom(limit, app)))
        except PolicyFaultError as error:
            self._effect(Faulted(self._registration.app_id, str(error)))
            return False
        if headroom == limit:
            return False
        set_resources(answer.limit, headroom)
        return True
