"""The central scheduler: how long each node will be busy with what it placed there, by estimates (thesis §2.3.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

LATE_S = 0.001
"""What a task has left that takes longer than it was expected to."""


FAR_S = 1e9
"""How far in the past idle nodes have been free, so that they come first, by number."""


class Waits:
    """What is known of each node: lists by node, of estimates in seconds."""

    __slots__ = ("ends_s", "free_s", "queued_s")

    def __init__(self, queued_s: list[float], ends_s: list[float], free_s: list[float]) -> None:
        """queued_s: what waits. ends_s: when the task that runs is expected to end, in the past when it takes longer; 0

        when none runs. free_s: their sum, the time at which all will be done.
        """
        self.queued_s, self.ends_s, self.free_s = queued_s, ends_s, free_s

    def copy(self) -> Waits:
        """Return them as they are now."""
        return Waits(self.queued_s.copy(), self.ends_s.copy(), self.free_s.copy())

    def by_wait(self, order: list[int], now_s: float) -> Iterator[tuple[float, int]]:
        """Yield (wait, node) of the nodes in `order`, by wait, which is computed only as far as somebody reads.

        order: is sorted in place, fast when it nearly is. A task that takes longer than expected is expected to end any
        moment, but a node without one is better.
        """
        queued_s, ends_s, free_s = self.queued_s, self.ends_s, self.free_s
        order.sort(key=free_s.__getitem__)
        held: list[tuple[float, int]] = []  # those that wait longer than `free_s` says
        for node in order:
            wait_s, at_least_s = free_s[node] - now_s, queued_s[node]
            if ends_s[node]:
                at_least_s += LATE_S
            elif not at_least_s:
                yield 0.0, node
                continue
            if wait_s < at_least_s:
                heappush(held, (at_least_s, node))
                continue
            while held and held[0][0] <= wait_s:
                yield heappop(held)
            yield wait_s, node
        while held:
            yield heappop(held)


class Central(Waits):
    """Waits of all nodes as the scheduler knows them that placed all: it hears at once what began and ended."""

    __slots__ = ("count",)

    def __init__(self, nodes: int) -> None:
        """Begin with nothing placed."""
        super().__init__([0.0] * nodes, [0.0] * nodes, [node - FAR_S for node in range(nodes)])
        self.count = [0] * nodes
        """Tasks that were placed at each node and did not end."""

    def placed(self, nodes: Iterable[int], task_s: float) -> None:
        """Add a task of so many seconds to each; a node may come several times."""
        queued_s, ends_s, free_s, count = self.queued_s, self.ends_s, self.free_s, self.count
        for node in nodes:
            queued_s[node] += task_s
            free_s[node] = queued_s[node] + ends_s[node]
            count[node] += 1

    def began(self, node: int, task_s: float, now_s: float) -> None:
        """Note that one of those tasks runs now."""
        left_s = self.queued_s[node] = self.queued_s[node] - task_s if self.count[node] > 1 else 0.0
        ends_s = self.ends_s[node] = now_s + task_s
        self.free_s[node] = ends_s + left_s

    def ended(self, node: int) -> None:
        """Note that it ended."""
        self.ends_s[node] = 0.0
        left = self.count[node] = self.count[node] - 1
        self.free_s[node] = self.queued_s[node] if left else node - FAR_S
