"""The central scheduler: how long each node will be busy with what it placed there, by estimates (thesis §2.3.7)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from typing import Final

LATE_S: Final = 0.001
"""What a task has left that takes longer than it was expected to."""
_SHELF_S: Final = 32.0
"""Nodes stand together that are free within so long; a power of two, so that none is rounded to another shelf."""
_NOWHERE: Final = -1


class CentralWaits:
    """What is known of each node: lists by node, of estimates in seconds."""

    __slots__ = ("_shelf", "_shelves", "ends_s", "free_s", "idle", "moved", "queued_s")

    def __init__(self, nodes: int) -> None:
        """Begin with nothing placed."""
        self.queued_s = [0.0] * nodes
        """What waits."""
        self.ends_s = [0.0] * nodes
        """When the task that runs is expected to end, in the past when it takes longer; 0 when none runs."""
        self.free_s = [0.0] * nodes
        """Their sum, the time at which all will be done."""
        self.idle = set(range(nodes))
        """Nodes without tasks."""
        self.moved: set[int] = set()
        """Nodes that changed since they were put on `_shelves`."""
        self._shelf = [_NOWHERE] * nodes
        self._shelves: dict[int, set[int]] = {}
        """Nodes with tasks by `free_s`."""

    def idle_from(self, first: int) -> list[int]:
        """Return the nodes without tasks, by number, from `first` on."""
        nodes = sorted(self.idle)
        return nodes[bisect_left(nodes, first) :] if first else nodes

    def by_wait(self, now_s: float, first: int = 0) -> Iterator[tuple[float, int]]:
        """Yield (wait, node) of nodes with tasks, from `first` on, by wait, then number; not computed until read.

        A task that takes longer than expected is expected to end any moment. Nothing may change while this is read.
        """
        self._put_away()
        queued_s, ends_s, free_s = self.queued_s, self.ends_s, self.free_s
        waits: list[tuple[float, int]] = []
        for number in sorted(self._shelves):
            for node in self._shelves[number]:
                if node >= first:
                    wait_s = free_s[node] - now_s
                    at_least_s = queued_s[node] + LATE_S if ends_s[node] else queued_s[node]
                    waits.append((wait_s if wait_s > at_least_s else at_least_s, node))
            waits.sort()
            sure = bisect_left(waits, ((number + 1) * _SHELF_S - now_s,))  # all others wait so long or longer
            yield from waits[:sure]
            del waits[:sure]
        yield from waits

    def _put_away(self) -> None:
        shelf, shelves, free_s, idle = self._shelf, self._shelves, self.free_s, self.idle
        for node in self.moved:
            before = shelf[node]
            number = _NOWHERE if node in idle else int(free_s[node] / _SHELF_S)
            if number != before:
                shelf[node] = number
                if before != _NOWHERE:
                    shelves[before].discard(node)
                    if not shelves[before]:
                        del shelves[before]
                if number != _NOWHERE:
                    shelves.setdefault(number, set()).add(node)
        self.moved.clear()


class Central(CentralWaits):
    """Waits of all nodes as the scheduler knows them that placed all: it hears at once what began and ended."""

    __slots__ = ("count",)

    def __init__(self, nodes: int) -> None:
        """Begin with nothing placed."""
        super().__init__(nodes)
        self.count = [0] * nodes
        """Tasks that were placed at each node and did not end."""

    def placed(self, nodes: Collection[int], task_s: float) -> None:
        """Add a task of so many seconds to each; a node may come several times."""
        queued_s, ends_s, free_s, count = self.queued_s, self.ends_s, self.free_s, self.count
        for node in nodes:
            queued_s[node] += task_s
            free_s[node] = queued_s[node] + ends_s[node]
            count[node] += 1
        self.idle.difference_update(nodes)
        self.moved.update(nodes)

    def began(self, node: int, task_s: float, now_s: float) -> None:
        """Note that one of those tasks runs now."""
        left_s = self.queued_s[node] = self.queued_s[node] - task_s if self.count[node] > 1 else 0.0
        ends_s = self.ends_s[node] = now_s + task_s
        self.free_s[node] = ends_s + left_s
        self.moved.add(node)

    def ended(self, node: int) -> None:
        """Note that it ended."""
        self.ends_s[node] = 0.0
        remaining = self.count[node] = self.count[node] - 1
        if remaining:
            self.free_s[node] = self.queued_s[node]
        else:
            self.idle.add(node)
        self.moved.add(node)


class Reported(CentralWaits):
    """Waits as the nodes reported them last."""

    __slots__ = ()

    def hear(self, central: Central) -> None:
        """Take over how all nodes are now. `central` forgets which of them changed, and cannot tell by wait itself."""
        moved = central.moved
        for mine, now in (
            (self.queued_s, central.queued_s),
            (self.ends_s, central.ends_s),
            (self.free_s, central.free_s),
        ):
            for node in moved:
                mine[node] = now[node]
        self.idle -= moved
        self.idle |= moved & central.idle
        self.moved |= moved
        moved.clear()
