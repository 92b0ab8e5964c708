"""Decides on each container that an application attempt wants: guaranteed (G) or queueable (Q).

The choice is the `route` policy's (policies/route) of the first rule in `policies.routes` that matches. Tokens,
quotas that apply to the route and upcoming windows then turn a Q into a G (policies/decisions/choice.py).
`Router._always_guaranteed` has the cases without a choice. Quotas at binding have a Q wait: routing/steering.py, which
also asks for one as G that no node granted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from operator import is_not
from typing import Final

from policies.config.policy_set import Policies, Rule, decides_alike, over_retries
from policies.decisions.choice import choose, within_quota
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, Kind, QueueView, Resources, Route, total
from policies.value_types import changer, replace
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.asks.ask_entry import AskEntry, Reason
from rm_proxy.attempt.asks.ask_rows import reach
from rm_proxy.attempt.asks.ask_table import AskTable
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.attempt.promotion_requests import Promotions
from rm_proxy.attempt.routing.decision_records import DecisionRecorder
from rm_proxy.attempt.routing.request_view import RequestView, read_view
from rm_proxy.attempt.routing.reroute import Reroute
from rm_proxy.domain import ids
from rm_proxy.estimates.estimator import EstimateSource

MAX_ROUTED: Final = 2_000
"""Containers that one allocate request decides on; what it wants beyond them is decided with the next ones."""
MAX_CREDITS: Final = 10_000
NOT_KNOWN: Final = "the application is not known yet"
RECORD_WAIT_S: Final = 10.0
"""How long containers of an application wait for its record, where it has to be admitted as a whole."""
OWN_WISH: Final = "the application asked for an OPPORTUNISTIC container"


@dataclass(frozen=True, slots=True)
class Credit:
    """A task whose container was shed or killed, and that will be asked for again."""

    retries: int = 0
    """How often it was lost so far."""
    follows: str = ""
    """The container that was lost last."""


_NO_CREDIT: Final = Credit()
_ask_of: Final = changer(Ask, "app")
_NO_NODES: Final[frozenset[str]] = frozenset()


class Router:
    """The choices for one application attempt; it changes the shares of the attempt's ask table."""

    def __init__(
        self,
        attempt_id: str,
        cluster: ClusterView,
        table: AskTable,
        live: HeldContainers,
        promotions: Promotions,
        emit: Callable[[Effect], None],
    ) -> None:
        self.attempt_id, self.app_id = attempt_id, ids.app_of_attempt(attempt_id)
        self.blacklist: frozenset[str] = frozenset()
        """Hosts that the application wants nothing on."""
        self.progress = 0.0
        """Of the job, as its last request said, 0..1."""
        self.maximum: Resources | None = None
        """The largest capability that the ResourceManager grants; None while it is not known."""
        self.undecided: dict[int, AskEntry] = {}
        """Keys that want more than MAX_ROUTED at once, by identity."""
        self._cluster, self._table, self.live, self._emit = cluster, table, live, emit
        self._promotions = promotions
        self._credits: dict[Resources, deque[Credit]] = {}
        self._records = DecisionRecorder(self.app_id, cluster, emit)
        self._reroute: Reroute | None = None
        self._view: RequestView | None = None
        self.unrecorded_s: float | None = None
        """Since when containers wait for the application's record; None while none does."""
        self._charged: tuple[object, ...] | None = None
        """The amounts whose sums were charged to the coordinator last, and the application's record at that time."""

    # The application

    @property
    def app(self) -> AppView | None:
        """The application with everything that this attempt holds and has asked for; None while it is not known."""
        record = self._cluster.apps.app(self.app_id)
        return self.counted(record) if record is not None else None

    def counted(self, record: AppView) -> AppView:
        """Return the application's record with everything that this attempt holds and has asked for."""
        sums = self._table.sums
        app = self.live.count_in(record, sums.open_q, sums.asked_size, self.progress)
        rising = list(self._promotions.outstanding()) if self._promotions.wishes else []
        if not (sums.asked_g or rising):
            return app
        size = sums.asked_g_size + total(live.resources for live in rising)
        return replace(app, asked_g=sums.asked_g + len(rising), asked_g_size=size)

    def excluded(self, app: AppView | None) -> frozenset[str]:
        """Return the hosts on which nothing may start: on the application's own blacklist, or kept for others."""
        return self.blacklist | app.kept_off if app is not None and app.kept_off else self.blacklist

    def begin(self) -> None:
        """Begin with a new message: the application and its queue are read anew."""
        self._view = None

    def view(self) -> RequestView | None:
        """Return the inputs of decisions; None while the application is not known.

        It is read once for each message, and again only after wanted containers were taken back.
        """
        view = self._view
        if view is not None and view.fits(self._table.sums):
            return view
        record = self._cluster.apps.app(self.app_id)
        if record is None:
            return None
        app = self.counted(record)
        self.charge(record)
        mode = view.mode if view is not None else self._cluster.modes.mode(app)
        self._view = read_view(self._cluster, app, mode, self.live, self._table.sums)
        return self._view

    def next_queueable(self) -> Resources:
        """Return the size of the most urgent ungranted queueable ask if some node has room, else nothing."""
        if not self._table.sums.open_q:
            return Resources()
        waiting = [e for e in self._table.entries.values() if e.q_wanted or e.pending]
        first = min(waiting, key=lambda e: e.key.priority, default=None)
        return first.resources if first is not None and self._cluster.placer.has_room(first.resources) else Resources()

    def charge(self, record: AppView | None = None) -> None:
        """Report to the coordinator what this attempt's containers use: those held, or asked for at nodes.

        record: the application's, if it is at hand.
        """
        live, asked_size, before = self.live, self._table.sums.asked_size, self._charged
        app = record or self._cluster.apps.app(self.app_id)
        parts = app, live.used_q, asked_size, live.used_g, live.over_g, live.over_q
        if before is None or any(map(is_not, parts, before)):
            self._charged = parts
            used_q, used_g = live.used_q + asked_size, live.used_g - live.over_g
            self._cluster.inventory.charge(self.attempt_id, used_q, used_g, live.over_q)

    def late_nodes(self, app: AppView, now_s: float) -> frozenset[str]:
        """Return the nodes where a container runs much longer than expected, as `straggler_ratio` has it."""
        if not self.live.by_id:
            return _NO_NODES
        ratio = self._cluster.policies.for_app(app).section.straggler_ratio
        if not ratio:
            return _NO_NODES

        def expected_s(priority: int) -> float:
            return self._cluster.durations.expected(app, priority).usual_s

        return self.live.late_nodes(now_s, ratio, expected_s)

    def remember_loss(self, lost: HeldContainer) -> None:
        """Note that a queueable container was shed or killed: the next ask of its size counts as its retry."""
        credits = self._credits.setdefault(lost.resources, deque(maxlen=MAX_CREDITS))
        credits.append(Credit(lost.retries + 1, lost.id))

    def start_over(self, blacklist: frozenset[str] = frozenset()) -> None:
        """Forget the application's asks: it registers and asks anew. blacklist: hosts still not wanted."""
        self.undecided.clear()
        self.blacklist = blacklist
        self._view = None

    # Decisions

    def route(self, entries: list[AskEntry], now_s: float, answered: bool = True) -> None:
        """Decide on containers that have no share yet, or take back unwanted ones.

        answered: whether an answer came since the last request.
        """
        remainder = MAX_ROUTED
        if self.unrecorded_s is not None and self._cluster.apps.app(self.app_id) is not None:
            self.unrecorded_s = None
            self.reconsider(routes=True)
        earlier, self.undecided = self.undecided, {}
        for entry in [*earlier.values(), *(e for e in entries if id(e) not in earlier)] if earlier else entries:
            if entry.rows.as_guaranteed and entry.only_q:
                self._enforce(entry, now_s)
            count = entry.undecided
            if count < 0:
                self._table.shrink(entry, -count)
            elif count > 0:
                remainder -= self._route(entry, count, remainder, now_s)
                if entry.undecided > 0:
                    self.undecided[id(entry)] = entry
                    entry.rows.rewrite()
                    entry.rows.touch(entry.key)
        if self._reroute is not None and remainder > 0 and self._cluster.apps.app(self.app_id) is not None:
            self._reroute.decide(self._table, self, remainder, answered, now_s)
            self._reroute = None if self._reroute.done else self._reroute

    def _route(self, entry: AskEntry, count: int, limit: int, now_s: float) -> int:
        """Give containers a share: `limit` of them, or all where there is no choice. Returns the effort."""
        if self._decide_together(entry, (Reason("", now_s, count),)):
            return 0
        count = min(count, limit)
        self._decide_each(entry, self._new(entry, count, now_s), now_s, True)
        return count

    def _enforce(self, entry: AskEntry, now_s: float) -> None:
        """Take guaranteed containers back whose application enforces OPPORTUNISTIC from now on."""
        reasons = list(entry.g_reasons)
        entry.set_g(())
        entry.rows.ask_as(guaranteed=False)
        self.decide(entry, reasons, now_s, True)

    def _new(self, entry: AskEntry, count: int, now_s: float) -> Iterator[Reason]:
        """Yield the reasons of new containers of a key: the retries one by one, then one for all that are alike."""
        credits = self._credits.get(entry.resources) if self._credits else None
        while credits and count:
            credit = credits.popleft()
            count -= 1
            yield Reason("", now_s, 1, retries=credit.retries, follows=credit.follows)
        together = count > 1 and _are_alike(entry, self._view, self._cluster.policies)
        for _ in range(1 if together else count):
            yield Reason("", now_s, count if together else 1)

    def decide(self, entry: AskEntry, reasons: Iterable[Reason], now_s: float, routes: bool) -> None:
        """Give wanted containers of a key a share; routes: by the route as well, not by quotas and windows alone."""
        if not self._decide_together(entry, reasons):
            self._decide_each(entry, reasons, now_s, routes)

    def _decide_together(self, entry: AskEntry, reasons: Iterable[Reason]) -> bool:
        """Give wanted containers their share where no policy has a choice; returns whether that is so."""
        view = self.view()
        if view is None and self._cluster.admissions.admits_whole():
            for reason in reasons:
                entry.add_q(replace(reason, text=NOT_KNOWN, tries=0))
                self.unrecorded_s = self.unrecorded_s or reason.asked_s
            return True
        why = self._always_guaranteed(entry, view)
        if why is not None:
            passes = view is None or view.mode != "bypass" or not _listed(self._cluster, view.app)
            for reason in reasons:
                entry.add_g(replace(reason, text=why, slot="route", shadow=None, tries=0), passes)
            return True
        if entry.key.opportunistic and stays_q(entry, view):
            for reason in reasons:
                entry.add_q(replace(reason, text=OWN_WISH, tries=0))
            return True
        return view is not None and self._unrouted(entry, view, reasons)

    def _unrouted(self, entry: AskEntry, view: RequestView, reasons: Iterable[Reason]) -> bool:
        """Give wanted containers their share where no route policy decides on them; returns whether that is so.

        Where each decision is compared with others they are decided on one by one.
        """
        cluster = self._cluster
        if entry.key.opportunistic or cluster.hooks.routed:
            return False
        rule = view.rules[entry.key.priority] = cluster.policies.rule(view.app, entry.key.priority)
        if not isinstance(rule, str):
            return False
        route = cluster.policies.unrouted(rule)
        for reason in reasons:
            share(entry, route, reason, view.mode)
            if reason.follows and view.mode != "shadow":
                cluster.mover.cancel_move(reason.follows)
        return True

    def _decide_each(self, entry: AskEntry, reasons: Iterable[Reason], now_s: float, routes: bool) -> None:
        """Have the policies decide on the wanted containers one after the other: each decision counts for the next."""
        view = self._view  # as `_decide_together` has read it
        assert view is not None
        ask, last = self.ask(entry, view), _NO_CREDIT
        refusals: Counter[Route] = Counter()
        wish = entry.key.opportunistic
        rule = view.rules.get(entry.key.priority) if not wish else None
        if rule is None and routes and not wish:
            rule = self._cluster.policies.rule(view.app, entry.key.priority)
        for reason in reasons:
            if view.added or view.sums is not None:
                view.settle()
            if (reason.retries, reason.follows) != (last.retries, last.follows):
                last = Credit(reason.retries, reason.follows)
                ask = self._retry(ask, last)
            if ask.app is not view.app:
                ask = _ask_of(ask, view.app)
            route = self._choose(ask, view.queue, None if routes else reason, rule, now_s)
            if route.kind is Kind.QUEUEABLE:
                view.added += reason.count
            elif route.slot != "route":
                refusals[route] += reason.count
            share(entry, route, reason, view.mode)
            if reason.follows and view.mode != "shadow" and route.kind is Kind.GUARANTEED:
                self._cluster.mover.cancel_move(reason.follows)
        if refusals:
            self._records.refused(view.app, refusals, now_s)

    def _choose(
        self, ask: Ask, queue: QueueView, before: Reason | None, rule: Rule | str | None, now_s: float
    ) -> Route:
        """Return the route of one container: the first matching rule's `route` policy, then quotas and windows.

        before: the reason of its share so far, where its route stays and only quotas and windows decide; rule: the
        first that matches, None if the application itself asked for OPPORTUNISTIC, which takes the place of all routes.
        """
        policies, rng = self._cluster.policies, self._cluster.rng
        try:
            if before is not None:
                text = before.text if before.slot == "route" else f"allowed now; before: {before.text}"
                return within_quota(policies, Route(Kind.QUEUEABLE, text), ask, queue, rng, now_s)
            if rule is None:
                why = over_retries(policies, ask)
                route = Route(Kind.QUEUEABLE, OWN_WISH) if why is None else Route(Kind.GUARANTEED, why)
                return within_quota(policies, route, ask, queue, rng, now_s)
            route = choose(policies, ask, queue, rng, now_s, rule)
            for step in self._cluster.hooks.routed:
                step(ask, queue, route, now_s)
        except PolicyFaultError as error:
            self._emit(Faulted(self.app_id, str(error)))
            return Route(Kind.GUARANTEED, f"a policy failed: {error}")
        return route

    def reconsider(self, routes: bool) -> None:
        """Decide anew, with the coming requests, on undelivered containers.

        routes: on all of it; else only on containers that are queueable, or were made guaranteed by a quota or window.
        """
        self._reroute = Reroute(routes or (self._reroute is not None and self._reroute.routes))

    @property
    def reconsiders(self) -> bool:
        """Whether the next request has to decide anew on what was asked for before."""
        return self._reroute is not None

    def _always_guaranteed(self, entry: AskEntry, view: RequestView | None) -> str | None:
        """Return why no policy may make this key queueable; None when one may."""
        if view is None:
            return NOT_KNOWN
        app, request_id = view.app, entry.key.request_id
        if view.mode == "bypass":
            return ": ".join(part for part in ("bypass mode", self._cluster.modes.why_bypass(app.id)) if part)
        if (why_none := self._cluster.grants.why_none) and view.mode == "active" and not entry.only_q:
            return why_none
        if entry.beyond:
            return "asks for more than memory and vcores"
        if not -1 <= request_id <= ids.MAX_REQUEST_ID:
            return f"request id {request_id} is outside {ids.REQUEST_IDS}"
        if self.maximum is not None and not entry.resources.fits(self.maximum):
            return "asks for more than the maximum allocation, which only the ResourceManager may judge"
        label = label_of(entry, view.queue)
        if label and not (view.queue_known and view.queue.labels & {label, "*"}):
            return f"queue {app.queue} is not known to reach nodes labelled {label}"
        if entry.key.opportunistic:
            return (
                None
                if _listed(self._cluster, app)
                else f"queue {app.queue} is not listed: it goes to the ResourceManager as it came"
            )
        if entry.rows.enforced and not frameworks.always_enforces(app.type):
            return "the application enforces GUARANTEED"
        precedences = view.precedences if app.type in frameworks.GUARDED else None
        if precedences and frameworks.must_be_guaranteed(app.type, entry.key.priority, precedences):
            return "deadlock guard: containers of the application that wait for it run already"
        return None

    def ask(
        self,
        entry: AskEntry,
        view: RequestView,
        work_s: float = inf,
        at_s: float = 0.0,
        shunned: frozenset[str] = _NO_NODES,
    ) -> Ask:
        """Return one container of `entry` as the policies see it, without retries; further arguments are its fields."""
        hosts, racks, anywhere, label = reach(entry.rows, view.queue.default_label)
        expects = view.expected(self._cluster.durations, entry.key.priority)
        return Ask(
            app=view.app,
            priority=entry.key.priority,
            resources=entry.resources,
            request_id=entry.key.request_id,
            hosts=hosts,
            racks=racks,
            anywhere=anywhere,
            label=label,
            blacklist=self.excluded(view.app),
            expected_s=expects.mean_s,
            known=expects.source is not EstimateSource.DEFAULT,
            spread_s=expects.spread_s,
            work_s=work_s,
            at_s=at_s,
            shunned=shunned,
        )

    def _retry(self, ask: Ask, credit: Credit) -> Ask:
        """Return the ask as one of a task that was lost as `credit` says."""
        expects = self._cluster.durations.expected(ask.app, ask.priority, credit.follows)
        known, mean_s, spread_s = expects.known, expects.mean_s, expects.spread_s
        return replace(ask, retries=credit.retries, expected_s=mean_s, known=known, spread_s=spread_s)


def _are_alike(entry: AskEntry, view: RequestView | None, policies: Policies) -> bool:
    """Return whether all new containers of a key get the same route, by the rule that was looked up for it."""
    rule = view.rules.get(entry.key.priority) if view is not None and not entry.key.opportunistic else None
    return view is not None and isinstance(rule, Rule) and decides_alike(policies, rule, view.app)


def _listed(cluster: ClusterView, app: AppView) -> bool:
    return cluster.policies.for_app(app).listed(app.queue)


def label_of(entry: AskEntry, queue: QueueView) -> str:
    """Return the node label of a key: its own, or the default of its queue."""
    label = entry.rows.label
    return queue.default_label if label is None else label


def stays_q(entry: AskEntry, view: RequestView | None) -> bool:
    """Return whether containers of a key may not go guaranteed: OPPORTUNISTIC is enforced, or nothing is to change."""
    if not entry.key.opportunistic:
        return False
    return entry.only_q or (view is not None and view.mode == "shadow")


def share(entry: AskEntry, route: Route, reason: Reason, mode: str) -> None:
    """Put containers into the share that was chosen for them; in shadow mode always into the guaranteed one."""
    reason = reason.decided(route)
    if mode == "shadow":
        text = f"shadow mode: {route.kind} ({route.reason})"
        entry.add_g(replace(reason, text=text, shadow=route.kind, tries=0))
    elif route.kind is Kind.QUEUEABLE:
        entry.add_q(reason)
    else:
        entry.add_g(replace(reason, tries=0))
