"""Asks for each queueable container of an attempt on one node, steers it to another, or lets it go guaranteed.

Which node it is: rm_proxy/coordinator/placement.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final

from policies.decisions.choice import drained
from policies.decisions.quotas import all_within, exceeded_quota, not_admitted, over_at_binding
from policies.errors import PolicyFaultError
from policies.model import Ask, Kind, Placement, QueueView, Resources, Route
from policies.value_types import replace
from policies.waiting import WaitingApp
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.asks.ask_entry import AskEntry, QPlacement, Reason
from rm_proxy.attempt.asks.ask_table import AskTable
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.attempt.routing.decision_records import DecisionRecorder
from rm_proxy.attempt.routing.request_view import RequestView
from rm_proxy.attempt.routing.router import RECORD_WAIT_S, Router, label_of, stays_q
from rm_proxy.dispatch.central_queue import UNLIMITED
from rm_proxy.dispatch.free_places import LabelledSize
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.domain.comparison import shadowed

MAX_TRIES: Final = 3
"""Nodes on which one queueable container is asked for before it goes guaranteed."""
MAX_PLACED: Final = 200
"""Queueable containers placed or steered for one allocate request; the rest waits for the next."""
MAX_COMPARED: Final = 20
"""Keys of a request of which alternatives alone would match one container each."""
GUARD_WAIT_S: Final = 10.0
"""How long a container may wait behind its own dependents before the deadlock guard steps in."""
NO_IDS: Final = "too many of its placements were not granted"
NOT_ACTIVE: Final = "the mode is active no longer"
STUCK: Final = "deadlock guard: its own application's containers wait for it"
_CLAIMED: Final = Placement(None, reason="others claim the places that are free", wait=True)
ENTITLED_S: Final = 1.0
"""How long a container waits without any place for its application before its queue's guarantee counts."""


class Steering:
    """Has nodes chosen for the containers of one application attempt that its router made queueable."""

    def __init__(self, cluster: ClusterView, table: AskTable, router: Router, emit: Callable[[Effect], None]) -> None:
        self._cluster, self._table, self._router, self._emit = cluster, table, router, emit
        self._records = DecisionRecorder(router.app_id, cluster, emit)
        self._placed_s = -inf
        """When a container of this attempt last got a node."""
        self.queued = False
        """Whether the central queue knows this attempt."""
        self._apart: dict[LabelledSize, int] = {}
        """What waited when this request began, while the central queue need not know of it, as nobody else waits."""
        self._shunned: frozenset[str] = frozenset()
        """Nodes where tasks of the application run much longer than expected."""
        self._work_s = inf
        """Work of the application, as in `Ask.work_s`."""
        self._owed: dict[LabelledSize, int] = {}
        """Containers that may go guaranteed with this request, since queue and user are owed them."""
        self.taken_back: Resources | None = None
        """Size of a container that went guaranteed for what its queue or user is owed, until none is asked for."""

    def crowded(self) -> frozenset[str]:
        """Return hosts where a container that went guaranteed would take from others, while some elsewhere would not.

        Only to be asked while `taken_back` is set; it is no longer once none of them is asked for.
        """
        if self.taken_back is None or not self._asks_guaranteed():
            self.taken_back = None
            return frozenset()
        return self._cluster.inventory.crowded(self.taken_back)

    def place_all(self, now_s: float, answered: bool) -> None:
        """Steer containers that the last answer did not grant, then place those that have no node yet.

        answered: whether an answer came since the last request; without one nothing was refused yet.
        """
        table, remainder = self._table, MAX_PLACED
        if not (table.sums.unplaced or table.by_private):
            self.forget()
            return
        view = self._router.view()
        if answered and table.by_private:
            for q in list(table.by_private.values()):
                if remainder <= 0:
                    break
                if q.sent:
                    remainder -= 1
                    self._steer(q, view, now_s)
            view = self._router.view()
        first = view
        self._begin(view, now_s)
        self._owed.clear()
        if view is not None:
            self._shunned = self._router.late_nodes(view.app, now_s)
        full: set[LabelledSize] = set()
        before = len(table.by_private)
        unplaced = self._unplaced(view)
        if view is not None and len(unplaced) > 1:
            active, policies = [entry for entry in unplaced if _active(entry, view)], self._cluster.policies
            if policies.for_app(view.app).cluster.matches:
                remainder -= self._place_matched(active, view, remainder, now_s)
            elif len(active) > 1 and shadowed(policies, "match"):
                terms = view, self._work_s, now_s, self._shunned
                self._cluster.placer.compare_match([self._router.ask(entry, *terms) for entry in active[:MAX_COMPARED]])
        for entry in unplaced:
            if remainder <= 0:
                break
            since_s = self._router.unrecorded_s
            if view is None and since_s is not None and now_s - since_s <= RECORD_WAIT_S:
                continue
            if view is None or not _active(entry, view):
                remainder -= 1
                for reason in entry.cut_q(entry.q_wanted):
                    self._fall_back(entry, reason, NOT_ACTIVE, now_s)
            else:
                remainder -= self._place_key(entry, view, remainder, full, now_s)
        view = self._router.view() if table.sums.unplaced else None
        placed = len(table.by_private) - before
        apart, self._apart = self._apart, {}
        if apart and placed and first is not None:
            self._cluster.line.placed(first.app, apart, placed, now_s)
            placed = 0
        if view is not None or self.queued:
            self._queue_up(view, now_s, placed, full)

    def forget(self, placed: int = 0, now_s: float = 0.0) -> None:
        """Leave the central queue: nothing waits for a place; placed: how many just got one."""
        if self.queued:
            self.queued = False
            self._cluster.line.waits_no_more(self._router.attempt_id, placed, now_s)

    def _begin(self, view: RequestView | None, now_s: float) -> None:
        """Enter the wanted containers into the central queue, or into `_apart` while no other application waits."""
        self._apart = {}
        if view is not None and not self.queued and self._cluster.line.idle:
            self._apart = self._sizes(view)
            if self._apart:
                app, sums, durations = view.app, self._table.sums, self._cluster.durations
                first = next(iter(sums.unplaced.values()))
                expected_s = view.expected(durations, first.key.priority).mean_s
                open_s = expected_s * (app.live_g + app.live_q + sums.asked_g)
                self._work_s = max(open_s, self._router.live.attained_s(now_s))
        else:
            self._queue_up(view, now_s)

    def _queue_up(
        self, view: RequestView | None, now_s: float, placed: int = 0, full: Collection[LabelledSize] = ()
    ) -> None:
        """Note in the central queue what waits for a place now; placed: how many just got one; full: found no place."""
        sizes = self._sizes(view) if view is not None and self._table.sums.unplaced else {}
        if view is None or not sizes:
            self.forget(placed, now_s)
            return
        waiting, asked_g = self._waiting(view, now_s)
        self._apart = {}
        self.queued, self._work_s = True, max(waiting.open_s, waiting.attained_s)
        try:
            demand = Demand(waiting, sizes, view.queue.priority, asked_g)
            self._cluster.line.waits(self._router.attempt_id, demand, now_s, placed, full)
        except PolicyFaultError as error:
            self._emit(Faulted(self._router.app_id, str(error)))

    def _sizes(self, view: RequestView) -> dict[LabelledSize, int]:
        """Return how many containers wait that may go to any node, by label and size."""
        sizes: dict[LabelledSize, int] = {}
        for entry in self._table.sums.unplaced.values():
            if entry.rows.anywhere and not entry.key.opportunistic:
                key = label_of(entry, view.queue), entry.resources
                sizes[key] = sizes.get(key, 0) + entry.q_wanted
        return sizes

    def _waiting(self, view: RequestView, now_s: float) -> tuple[WaitingApp, Resources]:
        """Return the application with what it has and wants, and the size of the guaranteed ones that it asked for.

        Expected durations are those of its first wanted tasks.
        """
        app, sums = view.app, self._table.sums
        ask_count = sum(entry.q_wanted for entry in sums.unplaced.values())
        container_count = app.live_g + app.live_q - ask_count + sums.asked_g
        first = next(iter(sums.unplaced.values()))
        expected_s = view.expected(self._cluster.durations, first.key.priority).mean_s
        waiting = WaitingApp(app, ask_count, container_count, self._router.live.attained_s(now_s), expected_s)
        return waiting, sums.asked_g_size

    def _unplaced(self, view: RequestView | None) -> list[AskEntry]:
        """Return the keys without a node: those that the application needs first, then as they came."""
        waiting = list(self._table.sums.unplaced.values())
        if view is not None and len(waiting) > 1:
            app_type = view.app.type
            waiting.sort(key=lambda entry: frameworks.precedence(app_type, entry.key.priority))
        return waiting

    def _place_key(self, entry: AskEntry, view: RequestView, limit: int, full: set[LabelledSize], now_s: float) -> int:
        """Place up to `limit` containers of a key; returns the effort.

        full: labels and sizes that no node has room for, as this request has found.
        The key stays as it is while all nodes are full and the policy lets it wait.
        """
        size, effort, hints, ask = (label_of(entry, view.queue), entry.resources), 0, None, None
        first, allowed = len(entry.pending), self._allowance(entry, size, now_s)
        coming = self._cluster.policies.hours.coming
        within = 0
        while effort < limit and entry.q_wanted and (not full or size not in full or self._owed.get(size, 0) > 0):
            effort += 1
            if ask is None or hints is not entry.rows.hinted:
                if view.added or view.bound or view.sums is not None:
                    view.settle()
                ask = self._router.ask(entry, view, self._work_s, now_s, self._shunned)
                hints = entry.rows.hinted
            placed = len(entry.pending) - first
            if effort == 1 and not coming and entry.q_wanted > 1:
                within = self._count_within(entry, ask, view, min(entry.q_wanted, limit, allowed))
            drained = bool(coming) and self._drained(entry, ask, view, now_s)
            room = None if placed >= allowed else full
            if not drained and not self._place(entry, ask, view, room, now_s, effort <= within):
                break
        return effort

    def _count_within(self, entry: AskEntry, ask: Ask, view: RequestView, count: int) -> int:
        """Return how many containers that are alike are surely within all quotas; 0: each has to be looked at."""
        if count < 2 or view.sums is not None or (entry.key.opportunistic and stays_q(entry, view)):
            return 0
        try:
            return count if all_within(self._cluster.policies, ask, count, view.queue) else 0
        except PolicyFaultError:
            return 0  # it is met again with the first of them, and reported there

    def _place_matched(self, entries: Sequence[AskEntry], view: RequestView, limit: int, now_s: float) -> int:
        """Place containers of several keys on nodes that are chosen for them together; returns the effort."""
        effort, placed = 0, True
        while placed and effort < limit:
            placed, batch = False, self._batch(entries, view, limit - effort, now_s)
            for (entry, ask), node_id in zip(batch, self._match(batch), strict=True):
                if node_id is not None and entry.q_wanted:
                    effort += 1
                    placed = self._place(entry, replace(ask, matched=node_id), view, set(), now_s) or placed
        return effort

    def _batch(
        self, entries: Sequence[AskEntry], view: RequestView, limit: int, now_s: float
    ) -> list[tuple[AskEntry, Ask]]:
        """Return up to `limit` containers that may get a node now; those of a key have the same ask."""
        batch: list[tuple[AskEntry, Ask]] = []
        for entry in entries:
            allowed = self._allowance(entry, (label_of(entry, view.queue), entry.resources), now_s)
            count = min(entry.q_wanted, allowed, limit - len(batch))
            if count > 0:
                ask = self._router.ask(entry, view, self._work_s, now_s, self._shunned)
                batch += [(entry, ask)] * count
        return batch

    def _match(self, batch: Sequence[tuple[AskEntry, Ask]]) -> Sequence[str | None]:
        """Return the node of each; None for all where containers of one key alone are left."""
        if len({entry.key for entry, _ in batch}) < 2:
            return [None] * len(batch)
        return self._cluster.placer.match([ask for _, ask in batch])

    def _allowance(self, entry: AskEntry, size: LabelledSize, now_s: float) -> int:
        """Return how many containers of a key may be placed: the application's own OPPORTUNISTIC ones wait for none."""
        if entry.key.opportunistic or not self.queued:
            return UNLIMITED
        return self._cluster.line.allowance(self._router.attempt_id, *size, now_s)

    def _place(
        self,
        entry: AskEntry,
        ask: Ask,
        view: RequestView,
        full: set[LabelledSize] | None,
        now_s: float,
        within: bool = False,
    ) -> bool:
        """Place one container, or let it go guaranteed; False when it has to wait.

        full: labels and sizes without room; None when better applications claim what is free. within: whether it is
        known to be within all quotas.
        """
        follows, waits = entry.q_reasons[0].follows, entry.key.opportunistic and stays_q(entry, view)
        if follows:
            ask = replace(ask, steer=self._cluster.mover.move_target(follows))
        over = None if within else self._over_quota(ask, view, waits)
        placement = over or (_CLAIMED if full is None else self._cluster.placer.place(ask, frozenset(), follows))
        if full is not None and placement.wait and ask.anywhere and placement.slot != "admit":
            full.add((ask.label, entry.resources))
        why: str | None = placement.reason
        if placement.wait:
            view.settle()
            why = self._why_guaranteed(entry, ask, view, over is not None, now_s)
        if placement.node is None and (waits or why is None):
            return False
        reason = entry.take_q()
        assert reason is not None
        if placement.slot == "admit" and not placement.wait:
            self._guarantee(entry, reason, placement.reason, now_s)
            return True
        if placement.node is None:
            self._fall_back(entry, reason, why or "no node may take it", now_s)
            return True
        self._placed_s = now_s
        node = self._cluster.inventory.node(placement.node)
        assert node is not None
        q = self._table.place(entry, ask, placement, node.host, node.rack, reason)
        if q is None:
            self.back_to_wanted(entry, reason, NO_IDS, now_s)
            return not waits
        self._cluster.placer.count_asked(q)
        view.bound.append(entry.resources)
        return True

    def _over_quota(self, ask: Ask, view: RequestView, stays: bool) -> Placement | None:
        """Return why a container may not get a node now, as a placement that waits; None when it may.

        stays: whether it cannot go guaranteed, so that it waits for all quotas. Containers that have no node yet do
        not count in them.
        """
        policies = self._cluster.policies
        view.settle()
        try:
            if stays:
                unplaced = sum(entry.q_wanted for entry in self._table.sums.unplaced.values())
                app = replace(view.app, live_q=view.app.live_q - unplaced)
                why = exceeded_quota(policies, replace(ask, app=app), view.queue)
            else:
                aside = self._not_admitted(ask, view) if view.sums is not None else None
                if aside is not None:
                    return aside
                why = over_at_binding(policies, ask, view.queue)
        except PolicyFaultError as error:
            self._emit(Faulted(self._router.app_id, str(error)))
            return Placement(None, reason=f"a policy failed: {error}")
        return Placement(None, reason=why, wait=True) if why is not None else None

    def _not_admitted(self, ask: Ask, view: RequestView) -> Placement | None:
        """Return why a container gets no node now by its tokens: it has one, or waits; None when it may get one."""
        app = view.with_nodes(len(self._table.by_private))
        portion = self._cluster.admissions.portion(self._router.attempt_id, ask.priority, ask.at_s)
        return not_admitted(self._cluster.policies, replace(ask, app=app, portion=portion), view.queue)

    def _why_guaranteed(self, entry: AskEntry, ask: Ask, view: RequestView, over: bool, now_s: float) -> str | None:
        """Return why a container that would have to wait goes guaranteed instead; None when it waits.

        over: whether it waits for a quota, not for room; those go guaranteed one at a time. For a guaranteed one the
        ResourceManager takes back, through the nodes, what others use of the guaranteed share.
        """
        if _stuck(entry, view, now_s):
            return STUCK
        if self._cluster.policies.for_app(ask.app).policy_name("admit") != "none":
            return None  # its tokens say what is guaranteed to it
        asked_s = entry.q_reasons[0].asked_s
        waits = over and now_s - max(self._placed_s, asked_s) > ENTITLED_S and not self._asks_guaranteed()
        if waits and entitled(view.queue, ask) and self._cluster.placer.has_room(ask.resources):
            self.taken_back = ask.resources
            return f"its queue {view.queue.name} is below its guaranteed capacity, and a node has room"
        size = ask.label, ask.resources
        if size not in self._owed:
            if self._apart:
                self._queue_up(view, now_s)
            starves = self._placed_s < now_s and (self.queued or not self._asks_guaranteed())
            self._owed[size] = self._cluster.line.starved(view.app, *size, asked_s, now_s) if starves else 0
        if self._owed[size] <= 0:
            return None
        self._owed[size] -= 1
        self.taken_back = ask.resources
        if fits_capacity(view.queue, ask):
            return f"its queue {view.queue.name} is below its guaranteed capacity, which other queues use"
        return f"user {ask.app.user} is below the share of one user of {view.queue.name}, which others use"

    def _asks_guaranteed(self) -> bool:
        """Return whether guaranteed containers are asked for that did not come yet."""
        return self._table.sums.asked_g > 0

    def _drained(self, entry: AskEntry, ask: Ask, view: RequestView, now_s: float) -> bool:
        """Let a container without a node go guaranteed if an upcoming window would not allow it."""
        policies = self._cluster.policies
        if stays_q(entry, view):
            return False
        view.settle()
        try:
            why = drained(policies, ask, view.queue, self._cluster.rng, now_s)
        except PolicyFaultError as error:
            self._emit(Faulted(self._router.app_id, str(error)))
            return False
        reason = entry.take_q() if why is not None else None
        if reason is None or why is None:
            return False
        self._fall_back(entry, reason, why, now_s)
        return True

    def _steer(self, q: QPlacement, view: RequestView | None, now_s: float) -> None:
        """Steer a container to a node that was not asked yet; after MAX_TRIES it goes guaranteed."""
        if view is None or not _active(q.entry, view):
            self._table.park(q)
            self._fall_back(q.entry, q.reason, NOT_ACTIVE, now_s)
            return
        if q.tries < MAX_TRIES:
            q.ask = replace(q.ask, blacklist=self._router.excluded(view.app), at_s=now_s)
            placement = self._cluster.placer.place(q.ask, q.tried)
            if placement.node is not None:
                node = self._cluster.inventory.node(placement.node)
                assert node is not None
                self._records.steered(q.ask.app, q, placement, now_s)
                self._table.steer(q, placement, node.host, node.rack)
                self._cluster.placer.count_asked(q)
                return
            if placement.wait:
                self._table.park(q)
                q.entry.add_q(replace(q.reason, tries=q.tries))
                return
        self._table.park(q)
        self._cluster.grants.refused(now_s)
        self.back_to_wanted(q.entry, q.reason, f"{q.tries} nodes did not grant it", now_s)

    def back_to_wanted(self, entry: AskEntry, reason: Reason, why: str, now_s: float) -> None:
        """Give up a placement for good: it goes guaranteed, unless the application enforces OPPORTUNISTIC."""
        if stays_q(entry, self._router.view()):
            entry.add_q(replace(reason, tries=0))
        else:
            self._fall_back(entry, reason, why, now_s)

    def _guarantee(self, entry: AskEntry, reason: Reason, why: str, now_s: float) -> None:
        """Let a container that waited go guaranteed by a token."""
        route = Route(Kind.GUARANTEED, why, "admit", self._cluster.policies.version)
        entry.add_g(replace(reason, text=route.reason, slot=route.slot, version=route.version, tries=0))
        app = self._router.app
        if app is not None:
            self._records.refused(app, {route: 1}, now_s)
        self._cluster.mover.cancel_move(reason.follows)

    def _fall_back(self, entry: AskEntry, reason: Reason, why: str, now_s: float) -> None:
        entry.add_g(replace(reason, text=f"fell back to guaranteed: {why} (routed Q: {reason.text})", tries=0))
        self._records.fell_back(self._cluster.apps.app(self._router.app_id), why, now_s, reason.count)
        self._cluster.mover.cancel_move(reason.follows)


def _active(entry: AskEntry, view: RequestView) -> bool:
    """Return whether queueable containers of this key may be asked for (settings may have changed meanwhile)."""
    return view.mode == "active" or (view.mode == "shadow" and entry.key.opportunistic)


def entitled(queue: QueueView, ask: Ask) -> bool:
    """Return whether a container is within the guaranteed capacity of its queue and the limit of its user.

    False where the scheduler guarantees nothing (Fair Scheduler), and off the default partition.
    """
    if ask.label or not queue.capacity.memory_mb:
        return False
    user = ask.app.user
    own = queue.user_used_g.get(user, Resources()) + queue.user_used_q.get(user, Resources()) + ask.resources
    within = queue.user_limit is None or own.fits(queue.user_limit)
    return within and fits_capacity(queue, ask)


def fits_capacity(queue: QueueView, ask: Ask) -> bool:
    """Return whether a queue stays within its guaranteed capacity with one more container."""
    return (queue.used_g + queue.used_q + ask.resources).fits(queue.capacity)


def _stuck(entry: AskEntry, view: RequestView, now_s: float) -> bool:
    """Return whether one container has to go guaranteed, because its own application fills the nodes.

    One at a time: while one is guaranteed, or runs, the application gets on.
    """
    if entry.g_share or now_s - entry.q_reasons[0].asked_s <= GUARD_WAIT_S:
        return False
    return frameworks.all_wait_for(view.app.type, entry.key.priority, view.precedences)
