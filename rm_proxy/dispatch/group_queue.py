"""The applications of one group that wait for places: in their order, and how many places each grade claims."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from policies.model import Resources
from policies.value_types import value_type
from policies.waiting import WaitingApp
from rm_proxy.dispatch.free_places import LabelledSize, Stock
from rm_proxy.dispatch.heartbeats import Heartbeats
from rm_proxy.dispatch.shares import Group

Rank = tuple[float, ...]
"""(-queue priority, -application priority, the policy's key); empty without an order."""
StockOf = Callable[[LabelledSize], Stock]
"""Returns the places of a label and size."""


@value_type
@dataclass(frozen=True, slots=True)
class Demand:
    """What an application attempt wants places for; `waiting.app` has its queue, user and priority."""

    waiting: WaitingApp
    sizes: Mapping[LabelledSize, int]
    """Containers that may go to any node, by node label and size."""
    queue_priority: int = 0
    asked_g: Resources = field(default_factory=Resources)
    """Size of the guaranteed containers that it has asked for, and not got."""

    @property
    def elsewhere(self) -> int:
        """Containers that wait and may not go to any node, but to some."""
        return max(0, self.waiting.ask_count - sum(self.sizes.values()))


@dataclass(slots=True)
class WantedPlaces:
    """Containers of one label and size that several applications wait for.

    Those of applications that left places free at their last heartbeat are counted apart: they claim only new places.
    """

    count: int = 0
    picky: int = 0
    seen: list[int] = field(default_factory=list)
    """How many had come free when each of the latter heartbeat last, sorted."""

    def add(self, count: int, seen: int | None) -> None:
        """Count the containers of an application; seen: places that had come free, if it left some of them free."""
        if seen is None:
            self.count += count
        else:
            self.picky += count
            insort(self.seen, seen)

    def remove(self, count: int, seen: int | None) -> None:
        """Undo `add`."""
        if seen is None:
            self.count -= count
        else:
            self.picky -= count
            del self.seen[bisect_left(self.seen, seen)]

    def claims(self, stock: Stock) -> int:
        """Return how many of the free places they claim."""
        new = min(self.picky, stock.came - self.seen[0]) if self.seen else 0
        return min(stock.free, self.count + max(0, new))

    def __bool__(self) -> bool:
        return bool(self.count or self.seen)


Sizes = dict[LabelledSize, WantedPlaces]


@dataclass(slots=True, eq=False)
class Waiting:
    """An application that waits, as the central queue knows it."""

    attempt_id: str
    demand: Demand
    group: Group
    beats: Heartbeats
    since_s: float
    """Since when it got no new place."""
    asked_s: float
    surplus: Mapping[LabelledSize, int]
    """Of sizes with places that were free after its last heartbeat, though it waits (it may not use them): how many had
    come free by then."""
    rank: Rank = ()
    claims: bool = False
    """Whether its claims are counted."""

    @property
    def grade(self) -> Rank:
        """The part of its rank by which it has claims against others."""
        return self.rank[:3]

    def same_claims(self, peer: Waiting) -> bool:
        """Return whether its claims are counted, and those of what is known of it now would be the same."""
        demand, next_demand = self.demand, peer.demand
        same = self.claims and self.rank == peer.rank and self.group == peer.group and self.surplus == peer.surplus
        return same and demand.sizes == next_demand.sizes and demand.asked_g == next_demand.asked_g


@dataclass(slots=True, eq=False)
class GroupQueue:
    """One group. Claims are counted by grade, so that a question costs as much as there are grades."""

    key: Group
    members: dict[str, Waiting] = field(default_factory=dict)
    order: list[tuple[Rank, str]] = field(default_factory=list)
    """Of the members that have a rank."""
    asked_g: Resources = field(default_factory=Resources)
    _users: dict[str, int] = field(default_factory=dict)
    _all: Sizes = field(default_factory=dict)
    _grades: dict[Rank, Sizes] = field(default_factory=dict)
    _sorted: list[Rank] = field(default_factory=list)

    @property
    def users(self) -> Collection[str]:
        """The users whose applications wait."""
        return self._users.keys()

    def add(self, entry: Waiting) -> None:
        """Add an application without claims."""
        self.members[entry.attempt_id] = entry
        self.asked_g += entry.demand.asked_g
        user = entry.demand.waiting.app.user
        self._users[user] = self._users.get(user, 0) + 1
        if entry.rank:
            insort(self.order, (entry.rank, entry.attempt_id))

    def remove(self, entry: Waiting) -> None:
        """Remove an application."""
        self.drop_claims(entry)
        del self.members[entry.attempt_id]
        self.asked_g -= entry.demand.asked_g
        user = entry.demand.waiting.app.user
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]
        if entry.rank:
            del self.order[bisect_left(self.order, (entry.rank, entry.attempt_id))]

    def count_claims(self, entry: Waiting) -> None:
        """Count what an application claims."""
        if entry.claims or not entry.rank or not entry.demand.sizes:
            return
        entry.claims = True
        grade = entry.grade
        if grade not in self._grades:
            self._grades[grade] = {}
            insort(self._sorted, grade)
        all_sizes, of_grade, surplus = self._all, self._grades[grade], entry.surplus
        for key, count in entry.demand.sizes.items():
            seen = surplus.get(key) if surplus else None
            for sizes in (all_sizes, of_grade):
                places = sizes.get(key)
                if places is None:
                    places = sizes[key] = WantedPlaces()
                places.add(count, seen)

    def drop_claims(self, entry: Waiting) -> None:
        """Count what an application claims no longer: it is silent, or gone."""
        if not entry.claims:
            return
        entry.claims = False
        grade = entry.grade
        all_sizes, of_grade, surplus = self._all, self._grades[grade], entry.surplus
        for key, count in entry.demand.sizes.items():
            seen = surplus.get(key) if surplus else None
            for sizes in (all_sizes, of_grade):
                places = sizes[key]
                places.remove(count, seen)
                if not places:
                    del sizes[key]
        if not self._grades[grade]:
            del self._grades[grade]
            del self._sorted[bisect_left(self._sorted, grade)]

    def has_better(self, grade: Rank) -> bool:
        """Return whether a better grade than this one has claims."""
        return bool(self._sorted) and self._sorted[0] < grade

    def claims_before(self, grade: Rank, label: str, size: Resources, stock_of: StockOf, enough: float) -> float:
        """Return how many places of a size the better grades claim, or at least `enough`."""
        claimed = 0.0
        for better in self._sorted:
            if better >= grade or claimed >= enough:
                break
            claimed += in_places(self._grades[better], label, size, stock_of)
        return claimed

    def claims(self, label: str, size: Resources, stock_of: StockOf) -> float:
        """Return how many places of a size all of them claim."""
        return in_places(self._all, label, size, stock_of)

    def demand(self) -> Iterable[tuple[LabelledSize, int]]:
        """Yield how many containers of each label and size the applications with claims want."""
        return ((key, claim.count + claim.picky) for key, claim in self._all.items())


def in_places(sizes: Sizes, label: str, size: Resources, stock_of: StockOf) -> float:
    """Return how many places of one size are claimed in all sizes of a label."""
    return sum(claim.claims(stock_of(key)) * places_of(key[1], size) for key, claim in sizes.items() if key[0] == label)


def places_of(size: Resources, unit: Resources) -> float:
    """Return how many places of another size one place of a size takes."""
    memory = size.memory_mb / unit.memory_mb if unit.memory_mb else 0.0
    vcores = size.vcores / unit.vcores if unit.vcores else 0.0
    return max(memory, vcores)
