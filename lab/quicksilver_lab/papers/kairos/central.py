"""Where the central queue of Kairos sends its tasks: by the policy `variance`, or as it would, found faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Protocol

from policies.model import AppView, Ask, NodeView, Resources
from policies.place.variance import Variance, place
from quicksilver_lab.papers.kairos.task import KairosNode

Tie = Callable[[KairosNode, float], float]
"""What decides between nodes with equally many tasks, the least of it first: of a node, at a time."""
_ROUNDING_S = 1e-6


class KairosCentral(Protocol):
    """Knows how many tasks each node has, as far as it was told."""

    def choose(self, count: int, now_s: float) -> list[int]:
        """Return the nodes of the next `count` tasks, fewer when they are full; count them in."""

    def ended(self, node: int, now_s: float) -> None:
        """Take note that a task of a node is over."""

    def changed(self, node: int, now_s: float) -> None:
        """Take note that a node has another set of tasks."""


def by_spread(node: KairosNode, now_s: float) -> float:
    """Return the spread of what a node's tasks have attained: Kairos' Var (§4.3.3)."""
    return node.spread_s(now_s)


def by_sum(node: KairosNode, now_s: float) -> float:
    """Return what they have attained together: Sum, which Kairos is compared with (§4.5.3)."""
    return sum(node.attained_s(now_s))


class ByPolicy:
    """Asks `policies.place.variance` for each task; a look at all nodes each time."""

    def __init__(self, nodes: Sequence[KairosNode], cores: int, extra: int, tie: Tie = by_spread) -> None:
        """Begin with empty nodes, of `cores` and `extra` tasks that stand still; `tie`: in place of the spread."""
        self._nodes, self._known, self._tie = nodes, [0] * len(nodes), tie
        self._cores, self._slots = cores, cores + extra
        self._rng = Random(0)

    def choose(self, count: int, now_s: float) -> list[int]:
        """Ask."""
        ask = Ask(AppView("job"), 20, Resources(0, 1))
        size, nodes = Resources(0, self._cores), list[int]()
        spreads = [self._tie(node, now_s) if count else 0.0 for node in self._nodes]
        while len(nodes) < count:
            views = [
                NodeView(f"{n:09}", capacity=size, containers=known, slots=self._slots, attained_sd_s=spreads[n])
                for n, known in enumerate(self._known)
            ]
            node = place(ask, views, Variance(), self._rng).node
            if node is None:
                break
            nodes.append(int(node))
            self._known[int(node)] += 1
        return nodes

    def ended(self, node: int, now_s: float) -> None:
        """Count it out."""
        self._known[node] -= 1

    def changed(self, node: int, now_s: float) -> None:
        """Nothing is kept that could be out of date."""


class ByLevel:
    """Keeps the nodes apart by how many tasks they have, and each level by a bound of the spread.

    The standard deviation of what n tasks have attained falls by half a second per second at most, since each gets
    between none and one. So spread + now / 2 of any earlier moment is a bound that time does not touch, and only the
    nodes are looked at whose bound is below the least spread found.
    """

    def __init__(self, nodes: Sequence[KairosNode], cores: int, extra: int) -> None:
        """Begin with empty nodes, of `cores` and `extra` tasks that stand still."""
        self._nodes, self._known = nodes, [0] * len(nodes)
        self._set = [0] * len(nodes)
        """Rises when a node has another set of tasks, or another level: entries from before are void."""
        self._levels: list[list[tuple[float, int, int]]] = [[] for _ in range(cores + extra)]
        self._levels[0] = [(0.0, node, 0) for node in range(len(nodes))]
        self.looks = 0
        """How often a spread was asked for."""

    def choose(self, count: int, now_s: float) -> list[int]:
        """Take the levels one after the other (Algorithm 3, lines 11 to 17)."""
        nodes: list[int] = []
        for level, heap in enumerate(self._levels):
            if len(nodes) == count:
                break
            if heap:
                batch = (
                    self._plain(heap, count - len(nodes)) if level < 2 else self._least(heap, count - len(nodes), now_s)
                )
                for node in batch:
                    self._known[node] = level + 1
                    self.changed(node, now_s)
                nodes += batch
        return nodes

    def ended(self, node: int, now_s: float) -> None:
        """Count it out."""
        self._known[node] -= 1
        self.changed(node, now_s)

    def changed(self, node: int, now_s: float) -> None:
        """Begin anew with a node: its spread is 0 or more, one task's is 0."""
        self._set[node] += 1
        level = self._known[node]
        if level < len(self._levels):
            heappush(self._levels[level], (now_s / 2 if level > 1 else 0.0, node, self._set[node]))

    def _plain(self, heap: list[tuple[float, int, int]], count: int) -> list[int]:
        nodes: list[int] = []
        while heap and len(nodes) < count:
            _, node, version = heappop(heap)
            if version == self._set[node]:
                nodes.append(node)
        return nodes

    def _least(self, heap: list[tuple[float, int, int]], count: int, now_s: float) -> list[int]:
        nodes: list[int] = []
        exact: list[tuple[float, int]] = []
        half_s = now_s / 2
        while len(nodes) < count:
            while heap and (not exact or heap[0][0] - half_s <= exact[0][0] + _ROUNDING_S):
                _, node, version = heappop(heap)
                if version == self._set[node]:
                    self.looks += 1
                    heappush(exact, (self._nodes[node].spread_s(now_s), node))
            if not exact:
                break
            nodes.append(heappop(exact)[1])
        for spread_s, node in exact:
            heappush(heap, (spread_s + half_s, node, self._set[node]))
        return nodes
