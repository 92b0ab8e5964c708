"""The highest response ratio (wait for its size) among thousands, without a look at all of them.

The response ratio (wait + size) / size of each grows by a straight line; two lines cross once at most. A tournament
keeps at every match its winner and until when no match below ends otherwise: only what expired is played again.
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

T = TypeVar("T")
_NOBODY = -1


class Tournament(Generic[T]):
    """A binary tree of matches over slots; time never goes back. O(log n) for each arrival or departure."""

    def __init__(self) -> None:
        self._slots = 1
        self._winner = [_NOBODY, _NOBODY]
        """By match: 1 is the final, 2i and 2i + 1 come before i, leaves are slots."""
        self._until_s = [math.inf, math.inf]
        self._item: list[T | None] = [None]
        self._line: list[tuple[float, float, int]] = [(0.0, 1.0, 0)]
        """By slot: arrival in s, size > 0, id."""
        self._free = [0]
        self._now_s = -math.inf

    def __len__(self) -> int:
        """Return how many there are."""
        return self._slots - len(self._free)

    def push(self, item: T, arrived_s: float, size: float, number: int) -> None:
        """Let one in; of equal ratios the earlier arrival wins, then the lower number."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._item[slot], self._line[slot] = item, (arrived_s, size, number)
        self._now_s = max(self._now_s, arrived_s)
        self._seat(slot, slot)

    def head(self, now_s: float) -> T:
        """Return the one with the highest ratio at `now_s`. Raises IndexError when there is none."""
        item = self._item[self._champion(now_s)]
        assert item is not None
        return item

    def pop(self, now_s: float) -> T:
        """Take out the one with the highest ratio at `now_s`."""
        slot = self._champion(now_s)
        item = self._item[slot]
        assert item is not None
        self._item[slot] = None
        self._free.append(slot)
        self._seat(slot, _NOBODY)
        return item

    def _champion(self, now_s: float) -> int:
        self._now_s = max(self._now_s, now_s)
        if self._until_s[1] <= self._now_s:
            self._replay(1)
        if self._winner[1] == _NOBODY:
            raise IndexError("nobody waits")
        return self._winner[1]

    def _seat(self, slot: int, player: int) -> None:
        """Put `player` on the leaf of `slot`, and play the matches above it."""
        match = self._slots + slot
        self._winner[match] = player
        while match > 1:
            match >>= 1
            self._play(match)

    def _replay(self, match: int) -> None:
        if match >= self._slots or self._until_s[match] > self._now_s:
            return
        self._replay(2 * match)
        self._replay(2 * match + 1)
        self._play(match)

    def _play(self, match: int) -> None:
        first, second = self._winner[2 * match], self._winner[2 * match + 1]
        until_s = min(self._until_s[2 * match], self._until_s[2 * match + 1])
        if first == _NOBODY or second == _NOBODY:
            self._winner[match] = max(first, second)
        else:
            better, worse = (first, second) if self._key(first) < self._key(second) else (second, first)
            self._winner[match] = better
            until_s = min(until_s, self._overtakes_s(worse, better))
        self._until_s[match] = until_s

    def _key(self, slot: int) -> tuple[float, float, int]:
        arrived_s, size, number = self._line[slot]
        return (-(self._now_s - arrived_s) / size, arrived_s, number)

    def _overtakes_s(self, worse: int, better: int) -> float:
        """Return when the worse one gets as high a ratio; it must be the smaller one, whose ratio grows faster."""
        arrived_s, size, _ = self._line[worse]
        before_s, larger, _ = self._line[better]
        if size >= larger:
            return math.inf
        return (arrived_s * larger - before_s * size) / (larger - size)

    def _grow(self) -> None:
        """Double the slots: the present ones become the left half."""
        slots = 2 * self._slots
        self._item += [None] * self._slots
        self._line += [(0.0, 1.0, 0)] * self._slots
        self._free = list(range(slots - 1, self._slots - 1, -1))
        self._winner = [_NOBODY] * slots + self._winner[self._slots :] + [_NOBODY] * self._slots
        self._until_s = [math.inf] * (2 * slots)
        self._slots = slots
        for match in range(slots - 1, 0, -1):
            self._play(match)
