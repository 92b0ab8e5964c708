"""The virtual clock: events on a heap, done by time, and at one time in the order in which they were asked for.

Chance is not its business: whoever needs it is given a `random.Random` with a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any


class Clock:
    """Time that passes from event to event, in seconds. `at` and `later` ask for events, `run` does them."""

    __slots__ = ("_asked", "_heap", "events", "now_s")

    def __init__(self, now_s: float = 0.0) -> None:
        """Begin at `now_s`."""
        self.now_s = now_s
        self.events = 0
        """Done so far."""
        self._asked = 0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []

    def at(self, at_s: float, do: Callable[..., object], *args: Any) -> None:
        """Call `do(*args)` at `at_s`. Raises ValueError when that is past, or no time at all."""
        if not at_s >= self.now_s:
            raise ValueError(f"{do!r} at {at_s} s: the clock is at {self.now_s} s")
        self._asked += 1
        heappush(self._heap, (at_s, self._asked, do, args))

    def later(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        """Call `do(*args)` after so many seconds. Raises ValueError for less than none."""
        self.at(self.now_s + seconds, do, *args)

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
        self.now_s, _, do, args = heappop(self._heap)
        self.events += 1
        do(*args)
        return True

    def run(self, until_s: float = inf) -> None:
        """Do all events that are due by `until_s`, those too that are asked for meanwhile."""
        heap, done = self._heap, 0
        try:
            while heap and heap[0][0] <= until_s:
                self.now_s, _, do, args = heappop(heap)
                done += 1
                do(*args)
        finally:
            self.events += done
