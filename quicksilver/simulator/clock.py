"""The virtual clock: events on a heap, done by time, and at one time in the order in which they were asked for.

Chance is not its business: whoever needs it is given a `random.Random` with a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import floor, inf
from typing import Any, Final

_REGULAR: Final = 1 << 60
"""Regular events come behind all others of their time."""


class Clock:
    """Time that passes from event to event, in seconds. `at` and `later` ask for events, `run` does them."""

    __slots__ = ("_calls", "_heap", "_place", "events", "now_s")

    def __init__(self, now_s: float = 0.0) -> None:
        """Begin at `now_s`."""
        self.now_s = now_s
        self.events = 0
        """Done so far."""
        self._calls = self._place = 0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []

    def at(self, at_s: float, do: Callable[..., object], *args: Any) -> None:
        """Call `do(*args)` at `at_s`. Raises ValueError when that is past, or no time at all."""
        if not at_s >= self.now_s:
            raise ValueError(f"{do!r} at {at_s} s: the clock is at {self.now_s} s")
        self._calls += 1
        heappush(self._heap, (at_s, self._calls, do, args))

    def later(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        """Call `do(*args)` after so many seconds. Raises ValueError for less than none."""
        self.at(self.now_s + seconds, do, *args)

    def regularly(self, first_s: float, period_s: float, place: int, do: Callable[..., object], *args: Any) -> None:
        """Call `do(*args)` at the next of the times `first_s` and each `period_s` after it.

        Of one time, regular events come last, by `place`; so it does not matter when they were asked for. Two of one
        place at one time are an error.
        """
        now_s, place = self.now_s, place + _REGULAR
        number = max(0, floor((now_s - first_s) / period_s))
        at_s = first_s + number * period_s
        while at_s < now_s or (at_s == now_s and place <= self._place):
            number += 1
            at_s = first_s + number * period_s
        heappush(self._heap, (at_s, place, do, args))

    def __len__(self) -> int:
        """Events that are still to be done."""
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the next event is due; infinity when there is none."""
        return self._heap[0][0] if self._heap else inf

    def step(self) -> bool:
        """Do the next event; False when there is none."""
        if not self._heap:
            return False
        self.now_s, self._place, do, args = heappop(self._heap)
        self.events += 1
        do(*args)
        return True

    def run(self, until_s: float = inf) -> None:
        """Do all events that are due by `until_s`, those too that are asked for meanwhile."""
        heap, done = self._heap, 0
        try:
            while heap and heap[0][0] <= until_s:
                self.now_s, self._place, do, args = heappop(heap)
                done += 1
                do(*args)
        finally:
            self.events += done
