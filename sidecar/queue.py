"""The waiting containers of a node, in the order of the `order` policy: bounded in number, bytes and time.

Who arrived earlier may be overtaken within a limit (Eagle thesis §3.4.3, see `policies.bypass`), and never runs ahead
of what its own application needs first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from policies.bypass import work_s
from policies.model import ContainerView

OrderKey = Callable[[ContainerView, float], tuple[float, ...]]
"""A waiting container and the time to its sort key; the lowest starts first."""
BypassLimit = Callable[[ContainerView], float | None]
"""A waiting container to how much expected work may overtake it (s); None: the key alone counts, precedence neither."""
PLAYED: Final = 100
"""Starts that `in_order` plays one by one; the rest stands in the order of its keys, which limits hardly change."""
PLAYED_WORK: Final = 20_000
"""Looks at waiting containers that the playing may take: the longer the queue, the fewer starts are played."""
_EPS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Waiting:
    """One held start. `hold_until_s`: when it must be given up, Unix seconds; `size`: its bytes."""

    view: ContainerView
    attempt_id: str
    hold_until_s: float
    size: int


@dataclass(slots=True, eq=False)
class _Place:
    """One of those that wait."""

    waiting: Waiting
    key: tuple[tuple[float, ...], float, str]
    work_s: float
    left_s: float
    """Work that may still overtake it."""
    limited: bool


class WaitingQueue:
    """Held starts by container id.

    max_length: containers; max_bytes: sum of their launch requests; bypass_limit: None when nothing limits the order.
    """

    def __init__(
        self, order_key: OrderKey, max_length: int, max_bytes: int, bypass_limit: BypassLimit | None = None
    ) -> None:
        self._order_key = order_key
        self._bypass_limit = bypass_limit
        self.max_length = max_length
        self.max_bytes = max_bytes
        self.bytes = 0
        self._waiting: dict[str, Waiting] = {}
        self._job_remaining_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._waiting

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def get(self, container_id: str) -> Waiting | None:
        """Return a start, None when it does not wait."""
        return self._waiting.get(container_id)

    def refusal(self, size: int) -> str | None:
        """Return why a start of `size` bytes finds no place, or None."""
        if len(self._waiting) >= self.max_length:
            return f"the queue is full: {len(self._waiting)} containers wait (limit {self.max_length})"
        if self.bytes + size > self.max_bytes:
            return f"the queue is full: {self.bytes} bytes wait, {size} more exceed the limit of {self.max_bytes}"
        return None

    def add(self, waiting: Waiting) -> None:
        """Add a start; raises ValueError when it waits already or finds no place (ask `refusal` first)."""
        refusal = self.refusal(waiting.size)
        if refusal is not None or waiting.view.id in self._waiting:
            raise ValueError(refusal or f"{waiting.view.id} waits already")
        self._waiting[waiting.view.id] = waiting
        self.bytes += waiting.size
        self._resize(waiting)

    def remove(self, container_id: str) -> Waiting:
        """Take a start out; raises KeyError when it does not wait."""
        waiting = self._waiting.pop(container_id)
        self.bytes -= waiting.size
        return waiting

    def launch(self, container_id: str) -> Waiting:
        """Take out a start that is on its way, and count it for those that it overtakes; KeyError as in `remove`.

        Who waits for it, as another one of its application that is needed later, is not overtaken by it.
        """
        urgent = _urgent(self._waiting.values())
        gone = self.remove(container_id)
        since = _arrival(gone.view)
        for waiting in list(self._waiting.values()):
            view = waiting.view
            if _arrival(view) < since and view.precedence <= urgent[view.app]:
                self._put(waiting, replace(view, bypassed_s=view.bypassed_s + work_s(gone.view)))
        return gone

    def job_sizes(self, job_remaining_s: Mapping[str, float]) -> None:
        """Take in what applications have left, in task-seconds by id; it goes before what their grants said."""
        self._job_remaining_s = dict(job_remaining_s)
        for waiting in list(self._waiting.values()):
            self._resize(waiting)

    def expect(self, container_id: str, expected_s: float, spread_s: float) -> None:
        """Take in how long a container is expected to run by now; nothing happens to one that does not wait."""
        waiting = self._waiting.get(container_id)
        if waiting is not None:
            self._put(waiting, replace(waiting.view, expected_s=expected_s, spread_s=spread_s))

    def head(self, now_s: float) -> Waiting | None:
        """Return the start that is next; equal keys go by arrival, then by id."""
        line = self._line(now_s)
        return line.next().waiting if line.places else None

    def in_order(self, now_s: float) -> list[Waiting]:
        """Return all starts in the order in which they would start if nothing else came, the next one first."""
        line = self._line(now_s)
        found: list[Waiting] = []
        if any(place.limited for place in line.places):
            most = min(PLAYED, max(1, PLAYED_WORK // len(line.places)))
            while line.places and len(found) < most:
                found.append(line.take(line.next()).waiting)
        return found + [place.waiting for place in sorted(line.places, key=lambda p: p.key)]

    def expired(self, now_s: float) -> list[Waiting]:
        """Return the starts whose time to wait is over."""
        return [w for w in self._waiting.values() if w.hold_until_s <= now_s]

    def deadline_s(self) -> float | None:
        """Return when the next one expires; None when nothing waits."""
        return min((w.hold_until_s for w in self._waiting.values()), default=None)

    def _put(self, waiting: Waiting, view: ContainerView) -> None:
        self._waiting[view.id] = Waiting(view, waiting.attempt_id, waiting.hold_until_s, waiting.size)

    def _resize(self, waiting: Waiting) -> None:
        view = waiting.view
        left_s = self._job_remaining_s.get(view.app, view.job_remaining_s)
        if left_s != view.job_remaining_s:
            self._put(waiting, replace(view, job_remaining_s=left_s))

    def _line(self, now_s: float) -> _Line:
        return _Line([self._place(w, now_s) for w in sorted(self._waiting.values(), key=lambda w: _arrival(w.view))])

    def _place(self, waiting: Waiting, now_s: float) -> _Place:
        view = waiting.view
        limit_s = self._bypass_limit(view) if self._bypass_limit is not None else None
        left_s = inf if limit_s is None else limit_s - view.bypassed_s
        key = (self._order_key(view, now_s), *_arrival(view))
        return _Place(waiting, key, work_s(view), left_s, limit_s is not None)


def _arrival(view: ContainerView) -> tuple[float, str]:
    return view.arrived_s, view.id


def _urgent(waiting: Iterable[Waiting]) -> dict[str, int]:
    """Return the precedence of what each application needs first of what it has here, by its id."""
    first: dict[str, int] = {}
    for each in waiting:
        view = each.view
        first[view.app] = min(view.precedence, first.get(view.app, view.precedence))
    return first


class _Line:
    """Those that wait, in the order of their arrival, as one after the other starts."""

    def __init__(self, places: list[_Place]) -> None:
        self.places = places
        self._urgent = _urgent(place.waiting for place in places)

    def _waits_for_own(self, place: _Place) -> bool:
        view = place.waiting.view
        return view.precedence > self._urgent[view.app]

    def next(self) -> _Place:
        """Return who starts next: the first by its key of those that may overtake all that came earlier.

        The first of all that does not wait for its own application always may; there must be one that waits.
        """
        best: _Place | None = None
        may_s = inf
        for place in self.places:
            if place.limited and self._waits_for_own(place):
                continue
            if place.work_s <= may_s + _EPS and (best is None or place.key < best.key):
                best = place
            if place.left_s < may_s:
                may_s = place.left_s
        assert best is not None
        return best

    def take(self, gone: _Place) -> _Place:
        """Take one out that starts, and lower what may still overtake those before it."""
        at = self.places.index(gone)
        for place in self.places[:at]:
            if not self._waits_for_own(place):
                place.left_s -= gone.work_s
        del self.places[at]
        app = gone.waiting.view.app
        own = [p.waiting.view.precedence for p in self.places if p.waiting.view.app == app]
        if own:
            self._urgent[app] = min(own)
        return gone
