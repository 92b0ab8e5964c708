"""Heartbeats that are done only when they change something, at the times at which they would have been anyway."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import floor
from random import Random


class Beats:
    """Nodes 0..n-1 that heartbeat each at a phase of their own, drawn by `rng`; and those of them that have room."""

    def __init__(self, nodes: int, period_s: float, rng: Random) -> None:
        """Draw the phases. All nodes have room."""
        self.period_s = period_s
        self.phases = [rng.uniform(0, period_s) for _ in range(nodes)]
        self._ring = sorted((phase, node) for node, phase in enumerate(self.phases))
        self._roomy = [True] * nodes

    def next_s(self, node: int, now_s: float) -> float:
        """Return when a node heartbeats next after `now_s`."""
        phase, period_s = self.phases[node], self.period_s
        number = floor((now_s - phase) / period_s) + 1
        at_s = phase + number * period_s
        while at_s <= now_s:  # by rounding
            number += 1
            at_s = phase + number * period_s
        return at_s

    def room(self, node: int, there_is: bool) -> None:
        """Note whether a node has room."""
        if self._roomy[node] == there_is:
            return
        self._roomy[node] = there_is
        entry = self.phases[node], node
        if there_is:
            insort(self._ring, entry)
        else:
            del self._ring[bisect_left(self._ring, entry)]

    def first(self, now_s: float) -> int | None:
        """Return the node with room that heartbeats next after `now_s`; None when no node has room."""
        ring = self._ring
        if not ring:
            return None
        start = bisect_right(ring, (now_s % self.period_s, len(self.phases)))
        nearby = {ring[(start + step) % len(ring)][1] for step in (-1, 0, 1)}
        return min(nearby, key=lambda node: (self.next_s(node, now_s), node))
