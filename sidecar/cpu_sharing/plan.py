"""Divides a node's cores by least attained service (Kairos thesis, Algorithm 2), for containers of any size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from policies.model import Way
from sidecar.cpu_sharing.events import LasRules
from sidecar.cpu_sharing.share import EPS, FULL, CoreGrant, CoreShare

LEAST_PART = 0.1
"""Cores: a smaller part is not worth a turn."""
_PROTECTED, _GROWING, _STARVING, _NEW, _IN_QUANTUM, _REST = range(6)

Key = tuple[int, float, int, float, int, str]
"""Class, level, place within it (newcomers, those within their quantum, others), seconds, whether it runs, id."""


@dataclass(frozen=True, slots=True)
class Need:
    """The cores to hand out, and the time."""

    room: float
    """Cores that are left by containers that are never resized."""
    rules: LasRules
    now_s: float
    arriving: bool = False
    """Whether a newcomer may displace a running container now."""
    places: int | None = None
    """How many containers may run side by side; None for any number."""


@dataclass(slots=True)
class Plan:
    """Grants by container id, running ones in order; `capped`: containers that would run without the limit."""

    grants: dict[str, CoreGrant] = field(default_factory=dict)
    capped: set[str] = field(default_factory=set)


def least_part(rules: LasRules) -> float:
    """Return the smallest number of cores that a container should be granted."""
    return max(2 * rules.min_cores, LEAST_PART)


@lru_cache(maxsize=16)
def _idle(cores: float) -> CoreGrant:
    return CoreGrant(cores, False)


def idle_grant(share: CoreShare, rules: LasRules) -> CoreGrant:
    """Return the grant of a container that is shrunk or frozen."""
    return _idle(0.0 if share.way is Way.FREEZE else rules.min_cores)


def _wishes(share: CoreShare, need: Need) -> Iterator[tuple[Key, float]]:
    """Yield a container's places in the order, and the total of cores that it may have by each."""
    rules, now_s = need.rules, need.now_s
    runs = share.granted.runs and not share.is_new
    cores = share.amount(share.granted)
    level, attained_s = share.rank
    rest = _IN_QUANTUM if rules.by_job else _REST
    if share.starving(rules, now_s):
        yield (_STARVING, 0.0, 0, share.idle_since_s, 0, share.id), share.vcores
    elif runs and now_s < share.protected_until_s:
        yield (_PROTECTED, 0.0, 0, share.protected_until_s, 0, share.id), cores
        if cores < share.vcores - EPS:
            yield (_GROWING, 0.0, 0, share.protected_until_s, 0, share.id), share.vcores
    elif share.is_new and need.arriving:
        first = (rest, level, -1) if rules.by_job else (_NEW, 0.0, 0)
        yield (*first, share.ready_s, 0, share.id), share.vcores
    elif runs and not share.over(rules, now_s):
        yield (_IN_QUANTUM, level, 0, attained_s, 0, share.id), cores
        if cores < share.vcores - EPS:
            yield (rest, level, 1, attained_s, 0, share.id), share.vcores
    else:
        yield (rest, level, 1, attained_s, 1 if runs else 0, share.id), share.vcores


def _in_order(shares: Iterable[CoreShare], need: Need) -> list[tuple[Key, float]]:
    """Return the wishes of all containers, the first to be served first.

    Most of a crowd stand still and have one wish, which is made here.
    """
    now_s, rules = need.now_s, need.rules
    starve_s = rules.starve_quanta * rules.quantum_s
    rest = _IN_QUANTUM if rules.by_job else _REST
    wishes: list[tuple[Key, float]] = []
    for share in shares:
        if share.is_new or share.granted.runs:
            wishes.extend(_wishes(share, need))
        elif share.protected_until_s <= now_s < share.idle_since_s + starve_s:
            wishes.append(((rest, share.level, 1, share.attained_s, 0, share.id), share.vcores))
        else:
            wishes.append(((_STARVING, 0.0, 0, share.idle_since_s, 0, share.id), share.vcores))
    wishes.sort()
    return wishes


class _Handout:
    """Hands out cores to one container after another."""

    def __init__(self, need: Need, free_cores: float, places: float, running: bool) -> None:
        self._least, self._min = least_part(need.rules), need.rules.min_cores
        self._free_cores, self._places = free_cores, places
        self._nothing_runs = not running
        self.parts: dict[str, float] = {}
        self.capped: set[str] = set()

    def is_used_up(self) -> bool:
        """Return whether nothing is left for any container that needs cores."""
        return not self._free_cores and not self._nothing_runs

    def offer(self, share: CoreShare, up_to: float, *, starving: bool) -> None:
        """Give a container its part of the cores that are left, in sum no more than `up_to`.

        Cores that do not suffice for a starving one are reserved for it, else smaller ones might take them for ever.
        """
        had = self.parts.get(share.id, 0.0)
        amount = self._amount(share, had, up_to - had)
        if amount is None:
            if starving:
                self._free_cores = 0.0
            return
        if share.id not in self.parts:
            if self._places < 1:
                self.capped.add(share.id)
                return
            self._places -= 1
        self.parts[share.id] = had + amount
        self._free_cores = max(0.0, self._free_cores - amount)
        self._nothing_runs &= amount <= EPS

    def _amount(self, share: CoreShare, had: float, demand: float) -> float | None:
        amount = min(demand, self._free_cores)
        if had + amount >= share.vcores - EPS:
            return demand
        last_resort = self._nothing_runs and self._free_cores >= self._min
        if share.whole:
            return demand if last_resort and had + demand >= share.vcores - EPS else None
        if amount >= self._least - EPS or (last_resort and self._free_cores < self._least):
            return amount
        return None


def plan(shares: Collection[CoreShare], need: Need, pinned: Collection[str] = ()) -> Plan:
    """Hand out the cores.

    shares: resizable containers that are in hand; pinned: ids of those of them that stay as they were carried out. In
    this order: protected containers keep what they have, then grow; starving ones, the longest first; newcomers, the
    oldest first; containers within their quantum keep what they have; and the rest by attained service, idle ones
    before running ones. Ties are broken by id. Where jobs count, the last three classes are one, and the level of the
    job comes first in it.
    """
    holders = [share for share in shares if share.id in pinned and share.applied.runs]
    free_cores = max(0.0, need.room - sum(share.amount(share.applied) for share in holders))
    places = inf if need.places is None else need.places - len(holders)
    handout = _Handout(need, free_cores, places, any(share.amount(share.applied) > EPS for share in holders))
    by_id = {share.id: share for share in shares if share.id not in pinned}
    needs_cores = min((share.vcores for share in shares), default=0.0) > EPS
    for key, up_to in _in_order(by_id.values(), need):
        handout.offer(by_id[key[-1]], up_to, starving=key[0] == _STARVING)
        if needs_cores and handout.is_used_up():
            break  # as for most of a crowd
    result = Plan(capped=handout.capped)
    for share_id, cores in handout.parts.items():
        full = cores >= by_id[share_id].vcores - EPS
        result.grants[share_id] = FULL if full else CoreGrant(round(cores, 6), True)
    shrunk, frozen = _idle(need.rules.min_cores), _idle(0.0)
    for share in by_id.values():
        if share.id not in result.grants:
            result.grants[share.id] = frozen if share.way is Way.FREEZE else shrunk
    return result
