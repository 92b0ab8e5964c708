"""Put each task where the least work waits: Least Work Left, as seen centrally or by stale reports (LWL, DLWL).

Hawk and Eagle place long jobs so (thesis §2.3.7, §3.3.3). With reports of all nodes every few seconds, and a small
random number on each wait so that schedulers choose differently, it is DLWL (§3.6.2, after Apollo and Yaq).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Final


def spread(tasks: int, task_s: float, waits: Iterable[tuple[float, int]], idle: Sequence[int] = ()) -> list[int]:
    """Return a node for each task, shape (tasks,): the one that waits least, which then waits `task_s` longer.

    waits: (wait in seconds, node), by wait; read as far as needed. idle: nodes that wait for nothing, all before those.
    Raises IndexError when there is no node.
    """
    chosen = list(idle[:tasks])
    left = tasks - len(chosen)
    if not left:
        return chosen
    longer = deque((task_s, node) for node in chosen)  # by wait as well: all grow by the same
    for wait_s, node in waits:
        while longer and longer[0][0] < wait_s:
            least_s, again = longer.popleft()
            chosen.append(again)
            longer.append((least_s + task_s, again))
            left -= 1
            if not left:
                return chosen
        chosen.append(node)
        longer.append((wait_s + task_s, node))
        left -= 1
        if not left:
            return chosen
    for _ in range(left):
        chosen.append(longer[0][1])
        longer.rotate(-1)
    return chosen


def jittered(
    waits: Iterable[tuple[float, int]], most_s: float, rng: Random, idle: Collection[int] = ()
) -> Iterator[tuple[float, int]]:
    """Yield each (wait + a random number of 0..most_s, node), by the sum.

    waits: by wait, read only as far as needed. idle: nodes that wait for nothing, in any order; only as many
    numbers are drawn for them as are asked for: the lowest of k, when none is below x, is x + (most - x)(1 - u^(1/k)).
    """
    random, left = rng.random, list(idle)
    drawn: list[tuple[float, int]] = []
    unread = iter(waits)
    wait_s, node = next(unread, _NONE)
    share = random() ** (1.0 / len(left)) if left else 0.0
    """Of the numbers, above those drawn for `idle`."""
    while True:
        until_s = drawn[0][0] if drawn and drawn[0][0] < wait_s else wait_s
        while left and (idle_s := most_s - most_s * share) <= until_s:
            at = int(random() * len(left))
            chosen, left[at] = left[at], left[-1]
            left.pop()
            if left:
                share *= random() ** (1.0 / len(left))
            yield idle_s, chosen
        if drawn and drawn[0][0] <= wait_s:
            yield heappop(drawn)
        elif wait_s < inf:
            heappush(drawn, (wait_s + most_s * random(), node))
            wait_s, node = next(unread, _NONE)
        else:
            return


_NONE: Final = (inf, 0)
