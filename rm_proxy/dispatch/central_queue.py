"""The applications whose containers wait for a place: who may take the places that are free.

First come the shares of YARN queues and users (`shares`), then, within such a group, the order of the `dispatch` policy
(policies/dispatch). A container is bound to a node within an allocate of its application master alone, so both act by
claims: while a better application waits, free places are kept for it until its next heartbeat. Claims are soft: only
another group that is behind its share, or a strictly better class of the own group has them, only while its masters
heartbeat, and only on places that they did not leave free at their last one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from math import ceil, inf
from typing import Final

from policies.model import AppView, Resources
from policies.value_types import replace
from policies.waiting import WaitingApp
from rm_proxy.dispatch.budgets import EPSILON, Budgets
from rm_proxy.dispatch.free_places import FreePlaces, LabelledSize
from rm_proxy.dispatch.group_queue import Demand, GroupQueue, Waiting, places_of
from rm_proxy.dispatch.heartbeats import Heartbeats
from rm_proxy.dispatch.shares import Group, Shares

UNLIMITED: Final = 1 << 30
STARVE_S: Final = 1.0
"""How long no application of a group got a place before the group takes back what is guaranteed to it."""
MAX_PLACED: Final = 10_000
"""Groups whose last placement is remembered; of more the oldest are forgotten."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """How far an application is from its turn."""

    ask_count: int
    """Containers of it that wait for a place."""
    waits_s: float
    """Since when it got no new place."""
    silent_s: float
    """Since its last heartbeat."""
    apps_before: int = 0
    """Applications that go before it."""
    wanted_before: int = 0
    """Containers that these want."""
    kept_for: tuple[str, ...] = ()
    """Other groups that get the next places."""


class CentralQueue:
    """A machine: demands and free places in, allowances out.

    key: the `dispatch` policy in force; without an order nobody has claims.
    """

    def __init__(self, free: FreePlaces, key: Callable[[WaitingApp, float], tuple[float, ...]], shares: Shares) -> None:
        self.free, self.shares, self._key = free, shares, key
        self._waiting: dict[str, Waiting] = {}
        self._budgets = Budgets(free, shares)
        self._groups = self._budgets.groups
        self._ends: list[tuple[float, str]] = []
        """A heap of times until which applications count as alive; those of earlier heartbeats mean nothing."""
        """How many applications want each size."""
        self._placed_s: dict[Group, float] = {}
        """When a container of each group last got a place."""

    def __len__(self) -> int:
        return len(self._waiting)

    # Demands

    def waits(
        self,
        attempt_id: str,
        demand: Demand,
        now_s: float,
        placed: int = 0,
        full: Collection[LabelledSize] = (),
    ) -> None:
        """Handle a message of an application: what it wants now.

        placed: how many containers just got a place; full: sizes for which it found no place, as its policy said.
        Raises PolicyFaultError when the `dispatch` policy fails; the application has no rank then.
        """
        before, app = self._waiting.get(attempt_id), demand.waiting.app
        since_s = now_s if before is None or placed else before.since_s
        asked_s = now_s if before is None else before.asked_s
        key = self.shares.group(app.queue, app.user)
        if placed:
            self._note_placed(key, now_s, (demand if before is None else before.demand).sizes, placed)
        beats = Heartbeats(now_s) if before is None else before.beats
        alive_until_s = beats.alive_until_s
        beats.beat(now_s)
        stocks = {size: self.free.stock(*size) for size in full if size in demand.sizes}
        surplus = {size: stock.came for size, stock in stocks.items() if stock.free}
        entry = Waiting(attempt_id, demand, key, beats, since_s, asked_s, surplus)
        try:
            ranked = self._key(replace(demand.waiting, waits_since_s=since_s, asked_s=asked_s), now_s)
            if ranked:
                entry.rank = (-float(demand.queue_priority), -float(app.priority), *ranked)
        finally:
            self._replace(before, entry, beats.alive_until_s != alive_until_s)

    def _replace(self, before: Waiting | None, entry: Waiting, lives_longer: bool) -> None:
        """Put an application in the place of what was known of it; most heartbeats change nothing that counts."""
        if before is not None and before.same_claims(entry):
            if lives_longer:
                heappush(self._ends, (entry.beats.alive_until_s, entry.attempt_id))
            before.demand, before.since_s = entry.demand, entry.since_s
            return
        if before is not None:
            self._forget(before.attempt_id)
        self._waiting[entry.attempt_id] = entry
        group = self._group(entry.group)
        group.add(entry)
        if entry.rank:
            heappush(self._ends, (entry.beats.alive_until_s, entry.attempt_id))
            group.count_claims(entry)

    def _group(self, key: Group) -> GroupQueue:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = GroupQueue(key)
        return group

    @property
    def idle(self) -> bool:
        """Whether nobody waits, so that an attempt that gets its places at once need not be known."""
        return not self._waiting

    def placed(self, app: AppView, sizes: Mapping[LabelledSize, int], count: int, now_s: float) -> None:
        """Note that an application of which it did not know got places, of any of these sizes."""
        self._note_placed(self.shares.group(app.queue, app.user), now_s, sizes, count)

    def _note_placed(self, key: Group, now_s: float, sizes: Mapping[LabelledSize, int], placed: int) -> None:
        if self._budgets.cache:
            self._budgets.taken(key, sizes, placed)
        if self.free.counted:
            self.free.follow()  # now: a place that comes free on the same node later is another one
        self._placed_s.pop(key, None)
        self._placed_s[key] = now_s
        if len(self._placed_s) > MAX_PLACED:
            del self._placed_s[next(iter(self._placed_s))]

    def waits_no_more(self, attempt_id: str, placed: int = 0, now_s: float = 0.0) -> None:
        """Forget an application: it waits for nothing, or is over; placed: how many containers just got a place."""
        entry = self._forget(attempt_id)
        if entry is not None and placed:
            self._note_placed(entry.group, now_s, entry.demand.sizes, placed)

    def _forget(self, attempt_id: str) -> Waiting | None:
        entry = self._waiting.pop(attempt_id, None)
        if entry is None:
            return None
        group = self._groups[entry.group]
        group.remove(entry)
        if not group.members:
            del self._groups[entry.group]
        return entry

    def clear(self) -> None:
        """Forget all."""
        for attempt_id in list(self._waiting):
            self._forget(attempt_id)
        self._ends.clear()

    def _silence(self, now_s: float) -> None:
        """Drop the claims of applications that stopped to heartbeat."""
        while self._ends and now_s > self._ends[0][0]:
            until_s, attempt_id = heappop(self._ends)
            entry = self._waiting.get(attempt_id)
            if entry is not None and entry.beats.alive_until_s == until_s:
                self._groups[entry.group].drop_claims(entry)

    # Who may take what is free

    def allowance(self, attempt_id: str, label: str, size: Resources, now_s: float) -> int:
        """Return how many containers of this label and size an application may place now."""
        entry = self._waiting.get(attempt_id)
        if entry is None or not entry.rank:
            return UNLIMITED
        self._silence(now_s)
        shared = self._budgets.shared(label)
        rivals = [self._groups[entry.group]] if shared else [*self._groups.values()]
        if not shared and not any(group.has_better(entry.grade) for group in rivals):
            return UNLIMITED
        free = self.free.count(label, size)
        mine = self._budgets.of((label, size), now_s, entry).remainder(entry.group)
        if not free:
            return UNLIMITED if not shared or mine > EPSILON else 0
        claimed, stock_of = 0.0, self._budgets.stock
        for group in rivals:
            claimed += group.claims_before(entry.grade, label, size, stock_of, mine - claimed)
            if claimed >= mine - EPSILON:
                return 0
        return UNLIMITED if not claimed and mine >= free else ceil(mine - claimed - EPSILON)

    # Guarantees

    def starved(self, app: AppView, label: str, size: Resources, asked_s: float, now_s: float) -> int:
        """Return how many containers an application may ask for as guaranteed, to take back what its group is owed.

        One for each place that the group lacks of its guaranteed share while queueable ones of others use more than
        theirs, once no application of it got a place for STARVE_S; but no more at a time than there are nodes: a node
        gives way by shrinking one container, a second one would have to be killed.
        """
        key = self.shares.group(app.queue, app.user)
        waits_s = now_s - max(self._placed_s.get(key, -inf), asked_s)
        if label or waits_s <= STARVE_S:
            return 0
        group = self._groups.get(key)
        if group is not None and self._finds_places(group, (label, size), now_s):
            return 0
        asked_g = group.asked_g if group is not None else Resources()
        users = {user for rival in self._groups.values() if rival.key.queue == app.queue for user in rival.users}
        lacks = self.shares.lacks(key, size, app.user, asked_g, users)
        return min(lacks, max(0, self.free.node_count - ceil(places_of(asked_g, size))))

    def _finds_places(self, group: GroupQueue, size: LabelledSize, now_s: float) -> bool:
        """Return whether places are free that the group's applications will take at their next heartbeats."""
        claims = self.free.count(*size) and group.claims(*size, self._budgets.stock) >= 1
        return bool(claims) and self._budgets.of(size, now_s).remainder(group.key) >= 1

    # What people see

    def why(self, attempt_id: str, now_s: float) -> str:
        """Return in words what an application waits for; "" if it does not wait."""
        turn = self.turn(attempt_id, now_s)
        if turn is None:
            return ""
        text = f"{turn.ask_count} containers wait for a place, {turn.waits_s:.0f} s without a new one"
        if turn.apps_before:
            text = f"{text}; {turn.wanted_before} of {turn.apps_before} applications that go before it"
        return f"{text}; places kept for {'; '.join(turn.kept_for)}" if turn.kept_for else text

    def turn(self, attempt_id: str, now_s: float) -> Turn | None:
        """Return how far an application is from its turn; None if it does not wait."""
        entry = self._waiting.get(attempt_id)
        if entry is None:
            return None
        self._silence(now_s)
        turn = Turn(entry.demand.waiting.ask_count, now_s - entry.since_s, now_s - entry.beats.last_s)
        if not entry.rank:
            return turn
        members = [(group, name) for group in self._rivals(entry) for rank, name in group.order if rank < entry.grade]
        better = [group.members[name] for group, name in members if group.members[name].claims]
        ask_count = sum(sum(rival.demand.sizes.values()) for rival in better)
        groups = self._kept_before(entry, now_s)
        return replace(turn, apps_before=len(better), wanted_before=ask_count, kept_for=groups)

    def _rivals(self, entry: Waiting) -> Collection[GroupQueue]:
        labels = {label for label, _ in entry.demand.sizes}
        return [self._groups[entry.group]] if labels == {""} else self._groups.values()

    def _kept_before(self, entry: Waiting, now_s: float) -> tuple[str, ...]:
        """Return the other groups that get the next places; none if its own group gets as many as it wants."""
        size = next((size for label, size in entry.demand.sizes if not label), None)
        if size is None or not self._budgets.shared(""):
            return ()
        budget = self._budgets.of(("", size), now_s, entry)
        if budget.remainder(entry.group) >= max(1, self.free.count("", size)) - EPSILON:
            return ()
        others = sorted((-budget.own(key), key) for key in budget.by_group if key != entry.group)
        others = [(places, key) for places, key in others if -places > EPSILON]
        names = [str(key) for _, key in others[:_NAMED]]
        more = len(others) - _NAMED
        return (*names, *([f"{more} more"] if more > 0 else []))

    def applicants(self, limit: int) -> list[WaitingApp]:
        """Return up to `limit` applications that wait, with since when."""
        entries = islice(self._waiting.values(), limit)
        return [replace(entry.demand.waiting, waits_since_s=entry.since_s, asked_s=entry.asked_s) for entry in entries]

    def claimed_idle(self, now_s: float) -> int:
        """Return how many places are free though applications wait that will get them at their next heartbeat."""
        self._silence(now_s)
        demand: dict[LabelledSize, int] = {}
        for group in self._groups.values():
            for key, count in group.demand():
                demand[key] = demand.get(key, 0) + count
        return sum(min(count, self.free.count(*key)) for key, count in demand.items())
