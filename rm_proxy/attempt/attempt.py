"""One application attempt as the proxy follows it: what its allocate requests and answers become.

It outlives connections. The application master must never notice: counts, priorities, capabilities, request ids,
execution types and completions stay consistent in what it sees (docs/internals.md, One allocate).
"""

from __future__ import annotations

from dataclasses import replace

from hadoop_rpc.protos import yarn_pb2 as y
from policies.errors import PolicyFaultError
from policies.model import Kind
from rm_proxy.attempt.allocate_exchange import LastAnswer, OpenRequest, merge, prepend
from rm_proxy.attempt.allocations import Allocations
from rm_proxy.attempt.ask_table import AskEntry, Key
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.container_events import Holdings
from rm_proxy.attempt.effects import DropHeld, Faulted, Refused
from rm_proxy.attempt.message_checks import check_answer, check_request
from rm_proxy.attempt.promotion_requests import Promotions
from rm_proxy.attempt.resync import Resync, doubt
from rm_proxy.attempt.snapshot import Note, Snapshot, unpacked, unpacked_answer, unpacked_container
from rm_proxy.attempt.snapshot_changes import SnapshotChanges
from rm_proxy.domain import ids
from rm_proxy.domain.resources import resources_of, set_resources


class Attempt(Holdings):
    """The machine of one application attempt; requests and answers are serialised AllocateRequest/ResponseProtos."""

    def __init__(self, attempt_id: str, world: ClusterView) -> None:
        super().__init__(attempt_id, world)
        self.allocates = 0
        self.resync: Resync | None = None
        """The take-over from an earlier process; None when there is nothing to take over, or it is done."""
        self.astray = False
        """Whether it was registered with an earlier process that left nothing: its asks pass as they are."""
        self._arrivals = Allocations(world, self._router, self._nodes, self.table, self.live, self._ends, self._effect)
        self.promotion = Promotions(self.app_id, world, self.live, self._effect)
        self.notebook = SnapshotChanges(self.live, self._ends)
        self._open: OpenRequest | None = None
        self._last: LastAnswer | None = None
        self._resend: list[y.ResourceRequestProto] | None = None
        """Rows of forgotten keys that go out again; None while no row is in doubt."""
        self._late: y.AllocateRequestProto | None = None
        """What a repeated request said beyond the first one, to be taken in with the next."""
        self._unseen = False
        """Whether the last request was one for the last answer again."""
        self._answered = True
        """Whether an answer came since the last request: only then something was not granted."""
        self._telling: frozenset[str] = frozenset()
        """Ends in the last answer."""

    @property
    def entries(self) -> list[AskEntry]:
        """What the application wants now, for the REST API."""
        return list(self.table.entries.values())

    @property
    def at_rest(self) -> bool:
        """Whether an exchange that carries nothing in either direction would leave everything as it is."""
        asks = self.table.busy or self._router.undecided or self._router.reconsiders or self._resend is not None
        taken_over = self.resync is not None or self._late is not None or self._open is not None
        return not (asks or taken_over or self._telling or self._ends.open or self.promotion.to_ask or self._effects)

    # Registration

    def on_registered(self, body: bytes, now_s: float) -> bytes | None:
        """Take in the answer to a registration; returns it rewritten, or None when it is to pass as it came.

        The application master forgets its asks with it and sends them anew; so does the ResourceManager.
        """
        answer = y.RegisterApplicationMasterResponseProto.FromString(body)
        self._start_over()
        self.astray = self._arrivals.astray = self._void = False
        if answer.HasField("maximumCapability"):
            self._router.maximum = resources_of(answer.maximumCapability)
        changed = self._arrivals.adopt(answer.containers_from_previous_attempts, now_s)
        self._router.charge()
        self.registered_answer = answer.SerializeToString() if changed else body
        self.notebook.registered(self.registered_answer)
        self._world.registered(self, now_s)
        return self.registered_answer if changed else None

    def on_not_registered(self, now_s: float) -> None:
        """Take in that the ResourceManager does not know the attempt (it restarted): all asks will come again.

        It has forgotten the containers that never started, and will refuse their tokens: they end here. What the last
        answer delivered is not even known to the application if it asked for that answer again; what it told of ends
        is told again.
        """
        last = self._last if self._unseen else None
        unseen = set(last.given) if last is not None else set()
        reason = "the ResourceManager restarted before its start"
        for live in [c for c in self.live if not c.is_started]:
            if live.kind is Kind.QUEUEABLE:
                self._effect(DropHeld(live.node_id, live.id, reason))
            if live.kind is Kind.GUARANTEED or live.id in unseen:
                self.live.pop(live.id)
                if live.id in unseen:
                    self._ends.silence(live.id)
            else:
                self._ends.preempt(live, reason, now_s)
        if last is not None:
            self._ends.tell_again(last.ends)
        self._start_over()
        self._void = True
        self.notebook.new()

    def _start_over(self) -> None:
        self.table.start_over()
        self._router.start_over()
        self._last = self._open = self._resend = self._late = self.resync = None
        self._answered = True
        self._telling = frozenset()
        self.promotion.clear()
        self._router.charge()

    def on_finished(self) -> None:
        """Take in that the application master unregistered: what the sidecars still hold of it is dropped."""
        self.end("the application finished")

    def end(self, reason: str) -> None:
        """Forget all of this attempt, and tell the sidecars to forget every start of it that they hold."""
        if self.finished:
            return
        for live in self.live:
            if live.kind is Kind.QUEUEABLE and not live.is_started:
                self._effect(DropHeld(live.node_id, live.id, reason))
        self.abandon()

    def abandon(self) -> None:
        """Forget all of this attempt: another proxy goes on with it, and the sidecars keep what they hold."""
        self.finished = True
        self._start_over()
        self.live.clear()
        self._ends.clear()
        self.notebook.over()
        self._router.charge()

    # Another process before this one

    def restore(self, kept: Snapshot) -> None:
        """Go on with what an earlier process wrote down. Raises KeyError, TypeError or ValueError when it is broken."""
        self.registered_answer = unpacked(kept.registered)
        self._void = not kept.registered
        answer = y.RegisterApplicationMasterResponseProto.FromString(self.registered_answer)
        if answer.HasField("maximumCapability"):
            self._router.maximum = resources_of(answer.maximumCapability)
        self._last = unpacked_answer(kept.last) if kept.last is not None else None
        for note in kept.live.values():
            self.live.add(unpacked_container(note))
        self._ends.restore(kept)
        self.table.serial = kept.serial
        self.resync = Resync(kept) if kept.registered else None
        self.notebook.restore(kept)
        self._answers = 1  # its first answer was long ago
        self.live.changed = {}
        self._router.charge()

    def go_astray(self, response_id: int) -> bool:
        """Take in an allocate request of a registration that nothing is known of; tells whether that is news.

        One without an answer yet (0) says all that the application master wants: nothing is missing.
        """
        known = self.registered_answer is not None or self.allocates > 0 or response_id == 0
        if self.astray or self.finished or known:
            return False
        self.astray = self._arrivals.astray = True
        return True

    def refuses(self, response_id: int) -> bool:
        """Tell whether an allocate request is to be refused, so that the application master registers anew."""
        resync = self.resync
        if resync is None or self.finished or not resync.refuses(response_id):
            return False
        self.notebook.resync(resync.id)
        return True

    def registration(self) -> bytes | None:
        """Return the answer to a registration that is not the ResourceManager's to answer; None when it is."""
        return self.resync.registration() if self.resync is not None and not self.finished else None

    def _go_on(self, request: y.AllocateRequestProto) -> bool:
        """Let a request go on with the id from before the take-over; tells whether that changed it."""
        resync = self.resync
        assert resync is not None
        if request.response_id == 0 and resync.id is not None:
            request.response_id = resync.id
            return True
        if not resync.busy:
            self.resync = None  # the application master has an answer since: it goes on by itself
            self.notebook.resync(None)
        return False

    def take_note(self) -> Note | None:
        """Return what changed since the last time, to be written down; None when nothing is to be."""
        if self.registered_answer is None or self.astray:
            return None
        return self.notebook.take()

    def whole_note(self) -> Note | None:
        """Return all that is to be known of it, as one note; None when nothing is."""
        if self.finished or self.registered_answer is None or self.astray:
            return None
        registered = b"" if self._void else self.registered_answer
        return self.notebook.whole(registered, self._last, self.table, self.resync, self._resend or ())

    # Requests

    def on_allocate(self, body: bytes, now_s: float) -> bytes | None:
        """Take in a request; returns it rewritten for the ResourceManager, or None when it is to pass as it came."""
        self.allocates += 1
        if self.finished:
            return None
        request = y.AllocateRequestProto.FromString(body)
        check_request(request)
        moved = self.resync is not None and self._go_on(request)
        last = self._last
        self._unseen = last is not None and last.repeats(request.response_id)
        if self._telling and not self._unseen:
            self._ends.unheard -= self._telling
            self._telling = frozenset()
        if last is not None and self._unseen:
            self._late = last.late(request) if body != last.request else None
            return request.SerializeToString() if moved else None  # the ResourceManager ignores it
        first = self._open
        if first is not None and first.response_id == request.response_id:
            if first.body == body:
                return first.rewritten
        else:
            first = None
        late, self._late = self._late, None
        if late is not None:
            prepend(late, request)
        changed = self._rewrite(request, now_s) or late is not None or moved
        call = OpenRequest(request.response_id, body, None)
        if first is not None:
            call, changed = merge(first, request, body), True
        call.rewritten = request.SerializeToString() if changed else None
        if moved:
            doubt(call)
        self._open = call
        return call.rewritten

    def _rewrite(self, request: y.AllocateRequestProto, now_s: float) -> bool:
        if request.HasField("blacklist_request"):
            listed = request.blacklist_request
            added = self._router.blacklist.union(listed.blacklist_additions)
            self._router.blacklist = added.difference(listed.blacklist_removals)
        changed = self._ends.rewrite_releases(request) if request.release or self._ends.to_release else False
        if request.update_requests or self.promotion.to_ask:
            changed = self.promotion.rewrite_request(request) or changed
        if self.astray:
            return changed
        if self.resync is not None:
            request.ask.extend(self.resync.zeros(request.ask))
        taking_over = self.resync is not None
        if request.ask or self.table.busy or self._resend is not None or self._router.reconsiders or taking_over:
            changed = self._rewrite_asks(request, now_s) or changed
            self._router.charge()
        self._answered = False
        return changed

    def _rewrite_asks(self, request: y.AllocateRequestProto, now_s: float) -> bool:
        table = self.table
        self._router.begin()
        touched = table.update(request.ask)
        if self.resync is not None:
            self.resync.adopt(table)
        self._router.route(touched, now_s, self._answered)
        self._nodes.place_all(now_s, self._answered)
        again, self._resend = self._resend, None
        ours = again is not None or table.dirty or any(entry.mixed for entry in touched)
        rows = [*(again or ()), *table.rows_for_rm()]
        self.notebook.asked(rows)
        if not ours:
            return False
        del request.ask[:]
        request.ask.extend(rows)
        return True

    def on_refused(self, why: str = "") -> None:
        """Take in that the ResourceManager refused a request: it has taken in none of its guaranteed rows.

        The application master sends its own rows again; ours, and our releases, go out with the next request.
        why: the exception, where it may be the fault of what we wrote.
        """
        call, self._open = self._open, None
        if call is None:
            return
        if call.rewritten is not None and why:
            self._effect(Refused(self.app_id, why))
        self._ends.answered()
        sent = call.sent
        mixed = [row for row in sent.ask if (entry := self.table.entries.get(Key.of(row))) is not None and entry.mixed]
        self._resend = [*(self._resend or ()), *self.table.doubt(mixed)]
        self._ends.release_again([ids.copied(c) for c in sent.release if ids.container_id_text(c) in self._ends])
        self.promotion.ask_again(sent.update_requests)

    # Answers

    def on_answer(self, body: bytes, now_s: float) -> bytes | None:
        """Take in an answer; returns it rewritten for the application master, or None when it is to pass as it came."""
        if self.finished:
            return None
        answer = y.AllocateResponseProto.FromString(body)
        check_answer(answer)
        if self._last is not None and answer.response_id == self._last.response_id:
            return self._last.rewritten  # the ResourceManager repeats itself: so do we
        request = self._close()
        self._arrivals.begin()
        carries = _carries(answer) or self._ends.to_tell
        changed = carries and self._take_in(answer, now_s)
        self.table.answered()
        changed = self._rewrite_limit(answer) or changed
        rewritten = answer.SerializeToString() if changed else None
        arrived = self._arrivals
        ends = list(answer.completed_container_statuses)
        self._telling = frozenset(ids.container_id_text(status.container_id) for status in ends)
        self._last = LastAnswer(answer.response_id, request, rewritten, arrived.delivered, arrived.given, ends)
        if carries:
            self.notebook.answered(self._last, arrived.granted)
        return rewritten

    def _take_in(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        self._router.begin()
        changed = self._arrivals.rewrite_allocated(answer, now_s)
        changed = self._arrivals.adopt(answer.containers_from_previous_attempts, now_s) or changed
        changed = self.promotion.rewrite_answer(answer, now_s) or changed
        changed = self._arrivals.rewrite_updated(answer) or changed
        changed = self._ends.rewrite_completed(answer, now_s) or changed
        self.promotion.prune(now_s)
        for report in answer.updated_nodes:
            self._world.node_changed(ids.node_id_text(report.nodeId), report.node_state == y.NS_RUNNING)
        self._router.charge()
        return changed

    def _close(self) -> bytes:
        """End the call that is answered now, and return it; what may not have been seen of it goes out again."""
        self._answers += 1
        self._answered = True
        call, self._open = self._open, None
        self._ends.answered()
        if call is not None and call.late is not None:
            self._late = call.late
        if call is not None and (call.doubtful or call.releases):
            self._resend = [*(self._resend or ()), *self.table.doubt(call.doubtful)]
            self._ends.release_again(call.releases)
        if call is not None and call.updates:
            self.promotion.ask_again(call.updates)
        return call.body if call is not None else b""

    # Headroom

    def _rewrite_limit(self, answer: y.AllocateResponseProto) -> bool:
        """Tell the application the headroom that its framework reckons with; the first answer stays untouched."""
        queueable = self.live.count_q or self.table.sums.open_q
        app = self._router.app if queueable and self._answers > 1 and answer.HasField("limit") else None
        if app is None:
            return False
        app = replace(app, next_q=self._router.next_queueable())
        limit = resources_of(answer.limit)
        try:
            told = self._world.policies.headroom(limit, app)
        except PolicyFaultError as error:
            self._effect(Faulted(self.app_id, str(error)))
            return False
        if told == limit:
            return False
        set_resources(answer.limit, told)
        return True


def _carries(answer: y.AllocateResponseProto) -> bool:
    """Tell whether an answer says more than that there is nothing new."""
    return bool(
        answer.allocated_containers
        or answer.completed_container_statuses
        or answer.updated_nodes
        or answer.updated_containers
        or answer.update_errors
        or answer.containers_from_previous_attempts
    )
