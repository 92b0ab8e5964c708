"""Put each task where the least work waits: Least Work Left, as seen centrally or by stale reports (LWL, DLWL).

Hawk and Eagle place long jobs so (thesis §2.3.7, §3.3.3). With reports of all nodes every few seconds, and a small
random number on each wait so that schedulers choose differently, it is DLWL (§3.6.2, after Apollo and Yaq).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import groupby
from operator import itemgetter
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


_Tied = tuple[float, int, float, list[int]]
"""The next sum of a group that waits equally long, the group's number, its wait, and the nodes without a sum yet."""


def jittered(waits: Iterable[tuple[float, int]], most_s: float, rng: Random) -> Iterator[tuple[float, int]]:
    """Yield each (wait + a random number of 0..most_s, node), by the sum.

    waits: by wait, read only as far as needed. Of nodes that wait equally long, idle ones above all, only as many
    numbers are drawn as are asked for: the lowest of k, when none is below x, is x + (most - x)(1 - (1 - u)^(1/k)).
    """
    drawn: list[_Tied] = []
    for number, (wait_s, tied) in enumerate(groupby(waits, key=itemgetter(0))):
        while drawn and drawn[0][0] <= wait_s:
            yield _lowest(drawn, most_s, rng)
        nodes = [node for _, node in tied]
        heappush(drawn, (wait_s + _beyond(0.0, len(nodes), most_s, rng), number, wait_s, nodes))
    while drawn:
        yield _lowest(drawn, most_s, rng)


def _beyond(low_s: float, count: int, most_s: float, rng: Random) -> float:
    above: float = (1.0 - rng.random()) ** (1.0 / count)
    return low_s + (most_s - low_s) * (1.0 - above)


def _lowest(drawn: list[_Tied], most_s: float, rng: Random) -> tuple[float, int]:
    sum_s, number, wait_s, nodes = drawn[0]
    at = int(rng.random() * len(nodes))
    node, nodes[at] = nodes[at], nodes[-1]
    nodes.pop()
    if nodes:
        after_s = wait_s + _beyond(sum_s - wait_s, len(nodes), most_s, rng)
        heapreplace(drawn, (max(after_s, sum_s), number, wait_s, nodes))
    else:
        heappop(drawn)
    return sum_s, node
