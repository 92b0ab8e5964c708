"""Put each task where the least work waits: Least Work Left, as seen centrally or by stale reports (LWL, DLWL).

Hawk and Eagle place long jobs so (thesis §2.3.7, §3.3.3). With reports of all nodes every few seconds, and a small
random number on each wait so that schedulers choose differently, it is DLWL (§3.6.2, after Apollo and Yaq).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from random import Random


def spread(tasks: int, task_s: float, waits: Iterable[tuple[float, int]]) -> list[int]:
    """Return a node for each task, shape (tasks,): the one that waits least, which then waits `task_s` longer.

    waits: (wait in seconds, node), by wait; read as far as needed. Raises IndexError when there is no node.
    """
    chosen: list[int] = []
    longer: deque[tuple[float, int]] = deque()  # by wait as well: all grow by the same
    unread = iter(waits)
    head = next(unread, None)
    for _ in range(tasks):
        if head is not None and (not longer or head[0] <= longer[0][0]):
            wait_s, node = head
            head = next(unread, None)
        else:
            wait_s, node = longer.popleft()
        chosen.append(node)
        longer.append((wait_s + task_s, node))
    return chosen


def jittered(waits: Iterable[tuple[float, int]], most_s: float, rng: Random) -> Iterator[tuple[float, int]]:
    """Yield each (wait + a random number of 0..most_s, node), by the sum; `waits` is read only as far as needed."""
    drawn: list[tuple[float, int]] = []
    for wait_s, node in waits:
        while drawn and drawn[0][0] <= wait_s:
            yield heappop(drawn)
        heappush(drawn, (wait_s + most_s * rng.random(), node))
    while drawn:
        yield heappop(drawn)
