"""The central scheduler: how long each node will be busy with what it placed there, by estimates (thesis §2.3.7)."""

from __future__ import annotations

from collections.abc import Iterable


class Central:
    """Waiting times of some nodes: estimates of what was placed there and waits, and what the running task has left."""

    __slots__ = ("_order", "count", "ends_s", "queued_s")

    def __init__(self, nodes: int, first: int = 0) -> None:
        """nodes: all of the cluster; tasks are placed on those from `first` on, or as `by_wait` is told."""
        self.queued_s = [0.0] * nodes
        """Estimates of what waits at each node."""
        self.ends_s = [0.0] * nodes
        """When the task that runs is expected to end; in the past when none does, or it takes longer."""
        self.count = [0] * nodes
        """Tasks that were placed at each node and did not end."""
        self._order = list(range(first, nodes))

    def placed(self, nodes: Iterable[int], task_s: float) -> None:
        """Add a task of so many seconds to each; a node may come several times."""
        queued_s, count = self.queued_s, self.count
        for node in nodes:
            queued_s[node] += task_s
            count[node] += 1

    def began(self, node: int, task_s: float, now_s: float) -> None:
        """Note that one of those tasks runs now."""
        self.queued_s[node] -= task_s
        self.ends_s[node] = now_s + task_s

    def ended(self, node: int) -> None:
        """Note that it ended."""
        self.ends_s[node] = 0.0
        left = self.count[node] = self.count[node] - 1
        if not left:
            self.queued_s[node] = 0.0  # no rest of rounding

    def by_wait(self, now_s: float) -> Iterable[tuple[float, int]]:
        """Return (wait, node), by wait, then as they came last time."""
        return sorted_waits(self._order, self.queued_s, self.ends_s, now_s)


def sorted_waits(
    order: list[int], queued_s: list[float], ends_s: list[float], now_s: float
) -> Iterable[tuple[float, int]]:
    """Return (wait, node) of the nodes in `order`, by wait; `order` is sorted in place, fast when it nearly is.

    queued_s, ends_s: by node, see `Central`. Waits that end in the past do not count.
    """
    waits_s = [queued + (end - now_s if end > now_s else 0.0) for queued, end in zip(queued_s, ends_s, strict=True)]
    order.sort(key=waits_s.__getitem__)
    return zip(map(waits_s.__getitem__, order), order, strict=True)
