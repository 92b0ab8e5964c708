"""Free places divided among groups: what each may take now. Where groups are many, one division serves for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rm_proxy.dispatch.free_places import MAX_SIZES, FreePlaces, LabelledSize, Stock
from rm_proxy.dispatch.group_queue import GroupQueue, Waiting
from rm_proxy.dispatch.shares import Group, Shares

EPSILON: Final = 1e-6
"""Of a place."""
EXACT: Final = 8
"""Up to so many groups the places are divided anew for each question."""
REFRESH_S: Final = 0.0005
"""With more groups: time for each group during which one division serves."""


@dataclass(slots=True)
class Budget:
    """Places of one size that are free: by group, and those that no group with claims wants."""

    spare: float
    by_group: Mapping[Group, float] = field(default_factory=dict)
    spending: dict[Group, float] = field(default_factory=dict)

    def own(self, group: Group) -> float:
        """Return how many a group may still have, spare ones left out."""
        return max(0.0, self.by_group.get(group, 0.0) - self.spending.get(group, 0.0))

    def remainder(self, group: Group) -> float:
        """Return how many a group may still have."""
        return self.own(group) + self.spare

    def take(self, group: Group, count: int) -> None:
        """Note that a group took so many."""
        own = self.own(group)
        self.spending[group] = self.spending.get(group, 0.0) + min(own, count)
        self.spare = max(0.0, self.spare - max(0.0, count - own))


@dataclass(slots=True)
class _Made:
    at_s: float
    any_free: bool
    budget: Budget


class Budgets:
    """Divides free places among the groups whose applications wait."""

    def __init__(self, free: FreePlaces, shares: Shares) -> None:
        self._free, self._shares = free, shares
        self.groups: dict[Group, GroupQueue] = {}
        self.cache: dict[LabelledSize, _Made] = {}

    def shared(self, label: str) -> bool:
        """Return whether several groups wait for places that have shares: those of the default partition alone."""
        return not label and len(self.groups) > 1

    def count(self, key: LabelledSize) -> int:
        """Return how many places of a label and size are free."""
        return self._free.count(*key)

    def stock(self, key: LabelledSize) -> Stock:
        """Return the same, and how many came free up to now."""
        return self._free.stock(*key)

    def of(self, key: LabelledSize, now_s: float, asker: Waiting | None = None) -> Budget:
        """Return the budget of a label and size now: of all that is free, or of the next place while nothing is.

        asker: an application whose containers all count, those that may not go to any node as well.
        """
        free = self.count(key)
        if not self.shared(key[0]):
            return Budget(float(free))
        if len(self.groups) <= EXACT or (asker is not None and asker.demand.elsewhere):
            return self._divided(key, free, asker)
        entry = self.cache.get(key)
        if entry is None or entry.any_free != bool(free) or not 0 <= now_s - entry.at_s < REFRESH_S * len(self.groups):
            if len(self.cache) >= MAX_SIZES:
                self.cache.clear()
            entry = self.cache[key] = _Made(now_s, bool(free), self._divided(key, free))
        return entry.budget

    def taken(self, key: Group, sizes: Mapping[LabelledSize, int], count: int) -> None:
        """Note that an application of a group got places, of any of these sizes."""
        for size in sizes:
            entry = self.cache.get(size)
            if entry is not None:
                entry.budget.take(key, count)

    def _divided(self, key: LabelledSize, free: int, asker: Waiting | None = None) -> Budget:
        (label, size), places = key, float(max(1, free))
        stock_of = self.stock if free else self._next
        claims: dict[Group, float] = {}
        for group, queue in self.groups.items():
            count = queue.claims(label, size, stock_of)
            if asker is not None and group == asker.group:
                count += asker.demand.elsewhere
            if count > 0:
                claims[group] = count
        portions = self._shares.split(places, size, claims) if claims else {}
        return Budget(max(0.0, places - sum(portions.values())), portions)

    def _next(self, key: LabelledSize) -> Stock:
        """Count one place of each size as free: the next one."""
        stock = self.stock(key)
        return stock if stock.free else Stock(1, stock.came + 1)
