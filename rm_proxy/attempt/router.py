"""Routing of what an application attempt wants: guaranteed or queueable, and where a queueable one waits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, Kind, QueueView, Resources, Route
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.ask_table import AskEntry, AskTable, QPlacement, Reason
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.decision_records import DecisionRecorder
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.attempt.reroute import Credit, Reroute, one_more, share
from rm_proxy.domain import ids
from rm_proxy.domain.resources import beyond_memory_and_cpu, resources_of

MAX_TRIES: Final = 3
"""Nodes that are asked for one queueable container before it goes guaranteed."""
MAX_ROUTED: Final = 2_000
"""Containers that one allocate request decides on; what it wants beyond them is decided with the next ones."""
MAX_PLACED: Final = 200
"""Queueable containers placed or steered for one allocate request; the rest waits for the next."""
MAX_CREDITS: Final = 10_000
GUARD_WAIT_S: Final = 10.0
"""How long a container may wait behind what waits for it before the deadlock guard steps in."""
NO_IDS: Final = "too many of its placements were not granted"


_NO_CREDIT: Final = Credit()


class Router:
    """The choices for one application attempt; it changes the shares of its ask table."""

    def __init__(
        self, attempt_id: str, world: ClusterView, table: AskTable, live: HeldContainers, emit: Callable[[Effect], None]
    ) -> None:
        self.attempt_id, self.app_id = attempt_id, ids.app_of_attempt(attempt_id)
        self.table = table
        self.blacklist: set[str] = set()
        self.maximum: Resources | None = None
        self.unrouted: dict[int, AskEntry] = {}
        """Keys that want more than MAX_ROUTED at once, by identity."""
        self.world, self._live, self._emit = world, live, emit
        self._credits: dict[Resources, deque[Credit]] = {}
        self.verdicts = DecisionRecorder(self.app_id, world, emit)
        self._again: Reroute | None = None
        self._full: set[tuple[str, Resources]] = set()
        """Labels and sizes for which this request has found all nodes full."""

    @property
    def app(self) -> AppView | None:
        """The application with everything that this attempt holds and has asked for; None while it is not known."""
        app = self.world.app(self.app_id)
        if app is None:
            return None
        ledger = self.table.ledger
        return self._live.count_in(app, ledger.open_q, ledger.open_size)

    def next_queueable(self) -> Resources:
        """Return the size of the most urgent queueable ask that is not granted, if some node has room; else nothing."""
        if not self.table.ledger.open_q:
            return Resources()
        waiting = [e for e in self.table.entries.values() if e.q_wanted or e.pending]
        first = min(waiting, key=lambda e: e.key.priority, default=None)
        return first.resources if first is not None and self.world.has_room(first.resources) else Resources()

    def charge(self) -> None:
        """Tell the coordinator what the queueable containers of this attempt use, waiting and wanted ones included."""
        self.world.charge(self.attempt_id, self._live.used_q + self.table.ledger.open_size)

    def remember_loss(self, live: HeldContainer) -> None:
        """Note that a queueable container was shed or killed: the next ask of its size counts as its retry."""
        credits = self._credits.setdefault(live.resources, deque(maxlen=MAX_CREDITS))
        credits.append(Credit(live.retries + 1, live.id))

    def route(self, entries: list[AskEntry], now_s: float, answered: bool = True) -> None:
        """Decide on containers that have no share yet, or take back what is no longer wanted.

        answered: whether an answer came since the last request.
        """
        left = MAX_ROUTED
        earlier, self.unrouted = self.unrouted, {}
        for entry in [*earlier.values(), *(e for e in entries if id(e) not in earlier)]:
            count = entry.undecided
            if count < 0:
                self.table.shrink(entry, -count)
            elif count > 0:
                left -= self._route(entry, min(count, left), now_s)
                if entry.undecided > 0:
                    self.unrouted[id(entry)] = entry
                    entry.rewrite()
                    entry.touch()
        if self._again is not None and left > 0:
            self._again.decide(self, left, answered, now_s)
            self._again = None if self._again.done else self._again

    def _route(self, entry: AskEntry, count: int, now_s: float) -> int:
        """Give `count` containers a share (all that are undecided, where there is no choice); return the effort."""
        app = self.app
        always = self.always_guaranteed(entry, app)
        if app is None or always is not None:
            entry.add_g(Reason(always or "the application is not known yet", now_s, entry.undecided))
            return 0
        if entry.key.opportunistic:
            entry.add_q(Reason("the application asked for an OPPORTUNISTIC container", now_s, entry.undecided))
            return 0
        self.charge()
        queue = self.world.queue(app.queue) or QueueView(app.queue)
        mode = self.world.mode(app)
        ask, size, last = self.ask(entry, app), entry.resources, _NO_CREDIT
        refusals: Counter[Route] = Counter()
        for _ in range(count):
            credit = self._credit(size)
            if credit != last:
                ask, last = self.retry(ask, credit), credit
            chosen = self.choose(ask, queue, now_s)
            if chosen.kind is Kind.QUEUEABLE:
                queue = queue.plus(app.user, size)
                app = one_more(app, entry)
                ask = replace(ask, app=app)
            elif chosen.slot != "route":
                refusals[chosen] += 1
            share(entry, chosen, Reason("", now_s, 1, retries=credit.retries, follows=credit.follows), mode)
            if mode != "shadow" and chosen.kind is Kind.GUARANTEED:
                self.world.cancel_move(credit.follows)
        self.verdicts.refused(app, refusals, now_s)
        return count

    def reconsider(self, routes: bool) -> None:
        """Decide anew, with the coming requests, on what was not delivered yet.

        routes: on all of it; else on what is queueable, or would be but for a quota or a window.
        """
        self._again = Reroute(routes or (self._again is not None and self._again.routes))

    @property
    def reconsiders(self) -> bool:
        """Whether the next request has to decide anew on what was asked for before."""
        return self._again is not None

    def choose(self, ask: Ask, queue: QueueView, now_s: float) -> Route:
        """Return the route of one container."""
        try:
            chosen = self.world.policies.choose(ask, queue, self.world.rng, now_s)
            self.world.compare_route(ask, queue, chosen, now_s)
            return chosen
        except PolicyFaultError as error:
            return self.faulted(error)

    def faulted(self, error: PolicyFaultError) -> Route:
        """Return the route of a container for which a policy failed."""
        self._emit(Faulted(self.app_id, str(error)))
        return Route(Kind.GUARANTEED, f"a policy failed: {error}")

    def _credit(self, size: Resources) -> Credit:
        credits = self._credits.get(size)
        return credits.popleft() if credits else _NO_CREDIT

    def always_guaranteed(self, entry: AskEntry, app: AppView | None) -> str | None:
        """Return why no policy may make this key queueable; None when it may."""
        if app is None:
            return "the application is not known yet"
        if self.world.mode(app) == "bypass":
            return ": ".join(part for part in ("bypass mode", self.world.why_bypass(app.id)) if part)
        capability = y.ResourceProto.FromString(entry.key.capability)
        if beyond_memory_and_cpu(capability):
            return "asks for more than memory and vcores"
        if not ids.fits(entry.key.request_id):
            return f"request id {entry.key.request_id} is too large"
        if self.maximum is not None and not resources_of(capability).fits(self.maximum):
            return "asks for more than the maximum allocation, which only the ResourceManager may judge"
        if entry.key.opportunistic:
            return None
        label = self._label(entry, app)
        queue = self.world.queue(app.queue)
        if label and (queue is None or not queue.labels & {label, "*"}):
            return f"queue {app.queue} is not known to reach nodes labelled {label}"
        live = self._live.precedences(app.type)
        if frameworks.must_be_guaranteed(app.type, entry.key.priority, live):
            return "deadlock guard: containers of the application that wait for it run already"
        return None

    def _label(self, entry: AskEntry, app: AppView) -> str:
        if entry.names_label:
            return entry.label
        queue = self.world.queue(app.queue)
        return queue.default_label if queue is not None else ""

    def ask(self, entry: AskEntry, app: AppView) -> Ask:
        """Return one container of `entry` as the policies see it, without retries."""
        hosts, racks = entry.hints()
        expects = self.world.expected(app, entry.key.priority)
        return Ask(
            app=app,
            priority=entry.key.priority,
            resources=entry.resources,
            request_id=entry.key.request_id,
            hosts=hosts,
            racks=racks,
            anywhere=entry.anywhere,
            label=self._label(entry, app),
            blacklist=frozenset(self.blacklist),
            expected_s=expects.mean_s,
            spread_s=expects.spread_s,
        )

    def retry(self, ask: Ask, credit: Credit) -> Ask:
        """Return the ask as one of a task that was lost as `credit` says."""
        expects = self.world.expected(ask.app, ask.priority, credit.follows)
        return replace(ask, retries=credit.retries, expected_s=expects.mean_s, spread_s=expects.spread_s)

    # Places

    def _active(self, entry: AskEntry, app: AppView | None) -> bool:
        """Tell whether queueable containers of this key may be asked for (settings may have changed meanwhile)."""
        mode = self.world.mode(app) if app is not None else "bypass"
        return mode == "active" or (mode == "shadow" and entry.key.opportunistic)

    def place_all(self, now_s: float, answered: bool) -> None:
        """Steer what the last answer did not grant, then place what waits for a node.

        answered: whether an answer came since the last request; without one nothing was refused yet.
        """
        app, left = self.app, MAX_PLACED
        self._full.clear()
        if answered:
            for q in list(self.table.by_private.values()):
                if left <= 0:
                    break
                left -= 1
                self._steer(q, app, now_s)
        for entry in self._unplaced(app):
            while left > 0 and entry.q_wanted and (entry.label, entry.resources) not in self._full:
                left -= 1
                if not self._place_one(entry, app, now_s):
                    break

    def _unplaced(self, app: AppView | None) -> list[AskEntry]:
        """Return the keys that wait for a node: what the application needs first, then as they came."""
        waiting = list(self.table.ledger.unplaced.values())
        if app is not None and len(waiting) > 1:
            waiting.sort(key=lambda entry: frameworks.precedence(app.type, entry.key.priority))
        return waiting

    def _place_one(self, entry: AskEntry, app: AppView | None, now_s: float) -> bool:
        """Place one container; False when the entry has to stay as it is.

        So it does while all nodes are full and the policy lets it wait, and OPPORTUNISTIC by the application's wish.
        """
        if app is None or not self._active(entry, app):
            return self._all_guaranteed(entry, now_s)
        ask, follows = self.ask(entry, app), entry.q_reasons[0].follows
        if self._drain(entry, ask, now_s):
            return True
        if follows:
            ask = replace(ask, steer=self.world.move_target(follows))
        placement = self.world.place(ask, frozenset(), follows)
        if placement.wait and ask.anywhere:
            self._full.add((entry.label, entry.resources))
        stuck = placement.wait and self._stuck(entry, app, now_s)
        if placement.node is None and (entry.key.opportunistic or (placement.wait and not stuck)):
            return False
        reason = entry.take_q()
        assert reason is not None
        if placement.node is None:
            why = "deadlock guard: its own application's containers wait for it" if stuck else placement.reason
            self._fall_back(entry, reason, why or "no node may take it", now_s)
            return True
        node = self.world.node(placement.node)
        assert node is not None
        q = self.table.place(entry, ask, placement, node.host, node.rack, reason)
        if q is None:
            return self._without_id(entry, reason, now_s)
        self.world.count_asked(q)
        return True

    def _drain(self, entry: AskEntry, ask: Ask, now_s: float) -> bool:
        """Let a container that waits for a node go guaranteed, where a window comes that would not allow it."""
        if entry.key.opportunistic:
            return False
        queue = self.world.queue(ask.app.queue) or QueueView(ask.app.queue)
        try:
            why = self.world.policies.drained(ask, queue, self.world.rng, now_s)
        except PolicyFaultError as error:
            self._emit(Faulted(self.app_id, str(error)))
            return False
        reason = entry.take_q() if why is not None else None
        if reason is None or why is None:
            return False
        self._fall_back(entry, reason, why, now_s)
        return True

    def _stuck(self, entry: AskEntry, app: AppView, now_s: float) -> bool:
        """Tell whether one container has to go guaranteed, because it waits for nodes that its own application fills.

        One at a time: while one is guaranteed, or runs, the application gets on.
        """
        if entry.g_share or now_s - entry.q_reasons[0].asked_s <= GUARD_WAIT_S:
            return False
        return frameworks.all_wait_for(app.type, entry.key.priority, self._live.precedences(app.type))

    def _all_guaranteed(self, entry: AskEntry, now_s: float) -> bool:
        for reason in entry.cut_q(entry.q_wanted):
            self._fall_back(entry, reason, "the mode is active no longer", now_s)
        return True

    def _without_id(self, entry: AskEntry, reason: Reason, now_s: float) -> bool:
        if entry.key.opportunistic:
            entry.add_q(replace(reason, tries=0))
            return False
        self._fall_back(entry, reason, NO_IDS, now_s)
        return True

    def _steer(self, q: QPlacement, app: AppView | None, now_s: float) -> None:
        """Steer a container to a node that was not asked yet; after MAX_TRIES it goes guaranteed."""
        if not self._active(q.entry, app):
            self.table.park(q)
            self._fall_back(q.entry, q.reason, "the mode is active no longer", now_s)
            return
        if q.tries < MAX_TRIES:
            q.ask = replace(q.ask, blacklist=frozenset(self.blacklist))
            placement = self.world.place(q.ask, q.tried)
            if placement.node is not None:
                node = self.world.node(placement.node)
                assert node is not None
                self.verdicts.steered(q.ask.app, q, placement, now_s)
                self.table.steer(q, placement, node.host, node.rack)
                self.world.count_asked(q)
                return
            if placement.wait:
                self.table.park(q)
                q.entry.add_q(replace(q.reason, tries=q.tries))
                return
        self.table.park(q)
        self.back_to_wanted(q.entry, q.reason, f"{q.tries} nodes did not grant it", now_s)

    def back_to_wanted(self, entry: AskEntry, reason: Reason, why: str, now_s: float) -> None:
        """Give up a placement for good: it goes guaranteed, unless the application itself asked for OPPORTUNISTIC."""
        if entry.key.opportunistic:
            entry.add_q(replace(reason, tries=0))
        else:
            self._fall_back(entry, reason, why, now_s)

    def _fall_back(self, entry: AskEntry, reason: Reason, why: str, now_s: float) -> None:
        entry.add_g(replace(reason, text=f"fell back to guaranteed: {why} (routed Q: {reason.text})", tries=0))
        self.verdicts.fell_back(self.world.app(self.app_id), why, now_s, reason.count)
        self.world.cancel_move(reason.follows)
