"""The waiting containers of a node, in the order of the `order` policy: bounded in number, bytes and time.

A later start may overtake earlier ones within a limit (Eagle thesis §3.4.3, see `policies.common.overtaking`), and
never one that its own application needs first.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from policies.common.overtaking import work_s
from policies.model import ContainerView
from policies.value_types import value_type

OrderKey = Callable[[ContainerView, float], tuple[float, ...]]
"""A waiting container and the time to its sort key; the lowest starts first."""
BypassLimit = Callable[[ContainerView], float | None]
"""A waiting container to how much expected work may overtake it (s); None: the key alone counts, precedence neither."""
Steady = Callable[[], object]
PLAYED: Final = 100
"""Starts that `in_order` simulates one by one; the rest is sorted by key, which limits hardly change."""
PLAYED_WORK: Final = 20_000
"""Limit of visits to waiting containers in the simulation: the longer the queue, the fewer starts are simulated."""
_EPS: Final = 1e-9


@value_type
@dataclass(frozen=True, slots=True)
class WaitingStart:
    """One held start. `hold_until_s`: when it must be given up, Unix seconds; `size`: its bytes."""

    view: ContainerView
    attempt_id: str
    hold_until_s: float
    size: int


@dataclass(slots=True, eq=False)
class _QueuePlace:
    """Place of one waiting container."""

    waiting: WaitingStart
    arrival: tuple[float, str]
    bypassed_s: float
    """Expected run time in the view, plus later additions."""
    key: tuple[tuple[float, ...], float, str] | None = None
    """None until it is computed."""
    work_s: float = 0.0
    limit_s: float | None = None

    @property
    def left_s(self) -> float:
        """Return how much expected work may still overtake it."""
        return inf if self.limit_s is None else self.limit_s - self.bypassed_s

    def now(self) -> WaitingStart:
        """Return the start, its view brought up to date."""
        waiting = self.waiting
        if waiting.view.bypassed_s != self.bypassed_s:
            view = replace(waiting.view, bypassed_s=self.bypassed_s)
            self.waiting = waiting = WaitingStart(view, waiting.attempt_id, waiting.hold_until_s, waiting.size)
        return waiting


class WaitingQueue:
    """Held starts by container id.

    max_length: containers; max_bytes: sum of their launch requests; bypass_limit: None when nothing limits the order.
    steady: returns something that stays the same as long as the keys and limits of unchanged containers do; None while
    they depend on the time or on what overtook them, and so are computed anew at each look.
    """

    def __init__(
        self,
        order_key: OrderKey,
        max_length: int,
        max_bytes: int,
        bypass_limit: BypassLimit | None = None,
        steady: Steady = lambda: None,
    ) -> None:
        self._order_key, self._bypass_limit, self._steady = order_key, bypass_limit, steady
        self.max_length = max_length
        self.max_bytes = max_bytes
        self.bytes = 0
        self._places: dict[str, _QueuePlace] = {}
        self._line: list[_QueuePlace] = []
        """In the order of arrival."""
        self._precedences: Counter[int] = Counter()
        self._by: object = None
        """The value of `steady` when the keys were computed."""
        self._head: _QueuePlace | None = None
        """The next start; None until it is determined."""
        self._job_remaining_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._places

    def __iter__(self) -> Iterator[WaitingStart]:
        return (place.now() for place in self._places.values())

    def get(self, container_id: str) -> WaitingStart | None:
        """Return a waiting start; None if there is none with this id."""
        place = self._places.get(container_id)
        return place.now() if place is not None else None

    def refusal(self, size: int) -> str | None:
        """Return why a start of `size` bytes is refused, or None."""
        if len(self._places) >= self.max_length:
            return f"the queue is full: {len(self._places)} containers wait (limit {self.max_length})"
        if self.bytes + size > self.max_bytes:
            return f"the queue is full: {self.bytes} bytes wait, {size} more exceed the limit of {self.max_bytes}"
        return None

    def add(self, waiting: WaitingStart) -> None:
        """Add a start. Raises ValueError when it waits already or there is no place (check `refusal` first)."""
        refusal = self.refusal(waiting.size)
        if refusal is not None or waiting.view.id in self._places:
            raise ValueError(refusal or f"{waiting.view.id} waits already")
        view = waiting.view
        place = self._places[view.id] = _QueuePlace(waiting, (view.arrived_s, view.id), view.bypassed_s)
        if self._line and place.arrival < self._line[-1].arrival:
            insort(self._line, place, key=_arrival)
        else:
            self._line.append(place)
        self._precedences[view.precedence] += 1
        self.bytes += waiting.size
        self._head = None
        self._resize(place)

    def remove(self, container_id: str) -> WaitingStart:
        """Remove a start. Raises KeyError when it does not wait."""
        place = self._places.pop(container_id)
        self._line.remove(place)
        precedence = place.waiting.view.precedence
        self._precedences[precedence] -= 1
        if not self._precedences[precedence]:
            del self._precedences[precedence]
        self.bytes -= place.waiting.size
        self._head = None
        return place.now()

    def launch(self, container_id: str) -> WaitingStart:
        """Remove a start that is being launched, and charge it to those that it overtakes; KeyError as in `remove`.

        A start of the same application that is needed later waits for it, and so is not overtaken by it.
        """
        place = self._places[container_id]
        urgent = _urgent(self._line) if len(self._precedences) > 1 else None
        done_s = work_s(place.waiting.view)
        for rival in self._line:
            if rival.arrival >= place.arrival:
                break
            view = rival.waiting.view
            if urgent is None or view.precedence <= urgent[view.app]:
                rival.bypassed_s += done_s
        return self.remove(container_id)

    def job_sizes(self, job_remaining_s: Mapping[str, float]) -> None:
        """Apply the remaining work of applications, in task-seconds by id; it replaces the figures of their grants."""
        self._job_remaining_s = dict(job_remaining_s)
        for place in self._line:
            self._resize(place)

    def expect(self, container_id: str, expected_s: float, spread_s: float) -> None:
        """Apply a container's latest expected run time; ignored if it does not wait."""
        place = self._places.get(container_id)
        if place is not None:
            self._put(place, replace(place.now().view, expected_s=expected_s, spread_s=spread_s))

    def head(self, now_s: float) -> WaitingStart | None:
        """Return the next start; equal keys are ordered by arrival, then by id."""
        if len(self._line) < 2:  # nobody asks the policy
            return self._line[0].now() if self._line else None
        places = self._places_at(now_s)
        if self._head is None:
            self._head = _WaitingLine(places, len(self._precedences) > 1).next()
        return self._head.now()

    def in_order(self, now_s: float) -> list[WaitingStart]:
        """Return all starts in the order in which they would start without new arrivals, the next one first."""
        places = self._places_at(now_s)
        by_key = sorted(places, key=_key)
        if all(place.limit_s is None for place in places) or self._undisturbed(by_key):
            return [place.now() for place in by_key]
        line = _WaitingLine([replace(place) for place in places], len(self._precedences) > 1)
        first: list[str] = []
        limit = min(PLAYED, max(1, PLAYED_WORK // len(places)))
        while line.places and len(first) < limit:
            first.append(line.take(line.next()).waiting.view.id)
        rest = sorted(line.places, key=_key)
        ids = [*first, *(place.waiting.view.id for place in rest)]
        return [self._places[container_id].now() for container_id in ids]

    def expired(self, now_s: float) -> list[WaitingStart]:
        """Return the starts whose hold limit is reached."""
        return [place.now() for place in self._places.values() if place.waiting.hold_until_s <= now_s]

    def deadline_s(self) -> float | None:
        """Return when the next hold limit is reached; None when nothing waits."""
        return min((place.waiting.hold_until_s for place in self._line), default=None)

    def _put(self, place: _QueuePlace, view: ContainerView) -> None:
        waiting = place.waiting
        place.waiting = WaitingStart(view, waiting.attempt_id, waiting.hold_until_s, waiting.size)
        place.key = self._head = None

    def _resize(self, place: _QueuePlace) -> None:
        view = place.waiting.view
        left_s = self._job_remaining_s.get(view.app, view.job_remaining_s)
        if left_s != view.job_remaining_s:
            self._put(place, replace(place.now().view, job_remaining_s=left_s))

    def _places_at(self, now_s: float) -> list[_QueuePlace]:
        """Return all places in the order of arrival, with keys and limits as they are now."""
        by = self._steady()
        anew = by is None or by is not self._by
        if anew:
            self._by, self._head = by, None
        for place in self._line:
            if anew or place.key is None:
                view = place.now().view
                place.key = (self._order_key(view, now_s), *place.arrival)
                place.limit_s = self._bypass_limit(view) if self._bypass_limit is not None else None
                place.work_s = work_s(view)
        return self._line

    def _undisturbed(self, by_key: Sequence[_QueuePlace]) -> bool:
        """Return whether all can start in key order: no limit is reached, and all have one precedence."""
        if len(self._precedences) > 1:
            return False
        least_s = min((place.left_s for place in by_key), default=inf)
        if sum(place.work_s for place in by_key) <= least_s:
            return True
        ranks = {id(place): rank for rank, place in enumerate(self._line, 1)}
        later = _QueueSums(len(by_key))
        for place in by_key:
            rank = ranks[id(place)]
            if later.total - later.up_to(rank) > place.left_s + _EPS:
                return False
            later.add(rank, place.work_s)
        return True


class _QueueSums:
    """Sums over the first ranks, from 1 on (a Fenwick tree)."""

    def __init__(self, count: int) -> None:
        self.total = 0.0
        self._parts = [0.0] * (count + 1)

    def add(self, rank: int, amount: float) -> None:
        """Add to one rank."""
        self.total += amount
        while rank < len(self._parts):
            self._parts[rank] += amount
            rank += rank & -rank

    def up_to(self, rank: int) -> float:
        """Return the sum of a rank and all before it."""
        total = 0.0
        while rank:
            total += self._parts[rank]
            rank &= rank - 1
        return total


def _arrival(place: _QueuePlace) -> tuple[float, str]:
    return place.arrival


def _key(place: _QueuePlace) -> tuple[tuple[float, ...], float, str]:
    assert place.key is not None, "keys are computed before anybody looks"
    return place.key


def _urgent(places: Iterable[_QueuePlace]) -> dict[str, int]:
    """Return the first precedence among the starts of each application, by application id."""
    first: dict[str, int] = {}
    for place in places:
        view = place.waiting.view
        first[view.app] = min(view.precedence, first.get(view.app, view.precedence))
    return first


class _WaitingLine:
    """The waiting starts in order of arrival, in a simulation that starts one after the other.

    mixed: whether the starts differ in precedence.
    """

    def __init__(self, places: list[_QueuePlace], mixed: bool) -> None:
        self.places = places
        self._urgent = _urgent(places) if mixed else None

    def _waits_for_own(self, place: _QueuePlace) -> bool:
        view = place.waiting.view
        return self._urgent is not None and view.precedence > self._urgent[view.app]

    def next(self) -> _QueuePlace:
        """Return the next start: the one with the lowest key that may overtake all earlier ones.

        The first of all that does not wait for its own application always may; there must be one that waits.
        """
        best: _QueuePlace | None = None
        may_s = inf
        for place in self.places:
            limited = place.limit_s is not None
            if limited and self._urgent is not None and self._waits_for_own(place):
                continue
            if place.work_s <= may_s + _EPS and (best is None or _key(place) < _key(best)):
                best = place
            if limited and place.left_s < may_s:
                may_s = place.left_s
        assert best is not None
        return best

    def take(self, gone: _QueuePlace) -> _QueuePlace:
        """Remove a start, and lower the work that may still overtake those before it."""
        at = self.places.index(gone)
        for place in self.places[:at]:
            if not self._waits_for_own(place):
                place.bypassed_s += gone.work_s
        del self.places[at]
        app = gone.waiting.view.app
        own = [p.waiting.view.precedence for p in self.places if p.waiting.view.app == app]
        if own and self._urgent is not None:
            self._urgent[app] = min(own)
        return gone
