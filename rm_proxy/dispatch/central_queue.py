"""The applications whose containers wait for a place, in the order of the `dispatch` policy (policies/dispatch).

A container is bound to a node within an allocate of its application master alone, so an order acts by claims: while a
better application waits, free places are kept for it until its next heartbeat. Claims are soft: only a strictly better
class has them, only while its master heartbeats, and only on places that it did not leave free at its last one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from policies.model import Resources
from policies.waiting import WaitingApp
from rm_proxy.dispatch.free_places import FreePlaces, LabelledSize

ALIVE_S: Final = 2.5
"""Time after its last heartbeat in which an application has claims."""
UNLIMITED: Final = 1 << 30

Rank = tuple[float, ...]
"""(-queue priority, -application priority, the policy's key); empty without an order."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What an application attempt wants places for; `waiting.app` has its priority."""

    waiting: WaitingApp
    sizes: Mapping[LabelledSize, int]
    """Containers that may go to any node, by node label and size."""
    queue_priority: int = 0


@dataclass(slots=True)
class _Waiting:
    demand: Demand
    rank: Rank
    beat_s: float
    since_s: float
    """Since when it got no new place."""
    asked_s: float
    left: Mapping[LabelledSize, int]
    """Places that were free after its last heartbeat, though it waits: it may not use them."""

    @property
    def grade(self) -> Rank:
        """The part of its rank by which it has claims against others."""
        return self.rank[:3]

    def alive(self, now_s: float) -> bool:
        return now_s - self.beat_s <= ALIVE_S


class CentralQueue:
    """A machine: demands and free places in, allowances out.

    key: the `dispatch` policy in force.
    """

    def __init__(self, free: FreePlaces, key: Callable[[WaitingApp, float], tuple[float, ...]]) -> None:
        self.free, self._key = free, key
        self._waiting: dict[str, _Waiting] = {}
        self._order: list[tuple[Rank, str]] = []
        self._sizes: dict[LabelledSize, int] = {}
        """How many applications want each size."""

    def __len__(self) -> int:
        return len(self._waiting)

    def update(
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
        before = self._forget(attempt_id)
        since_s = now_s if before is None or placed else before.since_s
        asked_s = now_s if before is None else before.asked_s
        waiting = replace(demand.waiting, waits_since_s=since_s, asked_s=asked_s)
        left = {key: self.free.count(*key) for key in full if key in demand.sizes}
        entry = self._waiting[attempt_id] = _Waiting(demand, (), now_s, since_s, asked_s, left)
        for size in demand.sizes:
            self._sizes[size] = self._sizes.get(size, 0) + 1
        key = self._key(waiting, now_s)
        if key:
            entry.rank = (-float(demand.queue_priority), -float(waiting.app.priority), *key)
            insort(self._order, (entry.rank, attempt_id))

    def forget(self, attempt_id: str) -> None:
        """Forget an application: it waits for nothing, or is over."""
        self._forget(attempt_id)

    def _forget(self, attempt_id: str) -> _Waiting | None:
        entry = self._waiting.pop(attempt_id, None)
        if entry is None:
            return None
        if entry.rank:
            del self._order[bisect_left(self._order, (entry.rank, attempt_id))]
        for size in entry.demand.sizes:
            self._sizes[size] -= 1
            if not self._sizes[size]:
                del self._sizes[size]
        return entry

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()
        self._order.clear()
        self._sizes.clear()

    def allowance(self, attempt_id: str, label: str, size: Resources, now_s: float) -> int:
        """Return how many containers of this label and size an application may place now."""
        entry = self._waiting.get(attempt_id)
        if entry is None or not entry.rank or self._order[0][0][:3] >= entry.grade:
            return UNLIMITED
        free, claimed = self.free.count(label, size), 0.0
        for other in self._better(entry, now_s) if free else ():
            claimed += self._claims(other, label, size)
            if claimed >= free:
                return 0
        return ceil(free - claimed) if claimed else UNLIMITED

    def _better(self, entry: _Waiting, now_s: float) -> Iterator[_Waiting]:
        """Yield the applications that have claims against one, best first."""
        own = entry.grade
        for rank, attempt_id in self._order:
            if rank[:3] >= own:
                return
            other = self._waiting[attempt_id]
            if other.alive(now_s):
                yield other

    def _claims(self, other: _Waiting, label: str, size: Resources) -> float:
        """Return how many free places of a size an application claims."""
        claimed = 0.0
        for key, wanted in other.demand.sizes.items():
            if key[0] == label:
                free = self.free.count(*key) - other.left.get(key, 0)
                claimed += max(0, min(wanted, free)) * _ratio(key[1], size)
        return claimed

    def to_wake(self, now_s: float) -> Iterator[str]:
        """Yield the attempts for which places are free now, in the order in which they should get them.

        Without an order they come as they asked. It is for attempts whose answers are held.
        """
        left: dict[LabelledSize, float] = {key: self.free.count(*key) for key in self._sizes}
        open_sizes = sum(free >= 1 for free in left.values())
        for attempt_id in [one for _, one in self._order] if self._order else list(self._waiting):
            if not open_sizes:
                return
            gets = False
            for key, wanted in self._waiting[attempt_id].demand.sizes.items():
                if left[key] >= 1:
                    gets = True
                    left[key] -= wanted
                    open_sizes -= left[key] < 1
            if gets:
                yield attempt_id

    def why(self, attempt_id: str, now_s: float) -> str:
        """Return in words what an application waits for; "" if it does not wait."""
        entry = self._waiting.get(attempt_id)
        if entry is None:
            return ""
        waits_s, wanted = now_s - entry.since_s, entry.demand.waiting.wanted
        text = f"{wanted} containers wait for a place, {waits_s:.0f} s without a new one"
        better = list(self._better(entry, now_s)) if entry.rank else []
        wanted = sum(sum(other.demand.sizes.values()) for other in better)
        return f"{text}; {wanted} of {len(better)} applications that go before it" if better else text

    def claimed_idle(self, now_s: float) -> int:
        """Return how many places are free though applications wait that will get them at their next heartbeat."""
        wanted: dict[LabelledSize, int] = {}
        for _, attempt_id in self._order:
            entry = self._waiting[attempt_id]
            if entry.alive(now_s):
                for key, count in entry.demand.sizes.items():
                    wanted[key] = wanted.get(key, 0) + count
        return sum(min(count, self.free.count(*key)) for key, count in wanted.items())


def _ratio(size: Resources, other: Resources) -> float:
    """Return how many places of another size one place of a size takes."""
    memory = size.memory_mb / other.memory_mb if other.memory_mb else 0.0
    vcores = size.vcores / other.vcores if other.vcores else 0.0
    return max(memory, vcores)
