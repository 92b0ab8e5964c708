"""Least work left by stale reports, a small random number on each wait (DLWL; thesis §3.6.2, after Apollo and Yaq).

Schedulers that see the same reports choose differently then. The rule itself: policies/common/least_wait.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Final


def jittered(
    waits: Iterable[tuple[float, int]], most_s: float, rng: Random, idle: Collection[int] = ()
) -> Iterator[tuple[float, int]]:
    """Yield each (wait + a random number of 0..most_s, node), by the sum.

    waits: by wait, read only as far as needed. idle: nodes that wait for nothing, in any order; only as many
    numbers are drawn for them as are asked for: the lowest of k, when none is below x, is x + (most - x)(1 - u^(1/k)).
    """
    random, pool = rng.random, list(idle)
    drawn: list[tuple[float, int]] = []
    unread = iter(waits)
    wait_s, node = next(unread, _NONE)
    share = random() ** (1.0 / len(pool)) if pool else 0.0
    """Of the numbers, above those drawn for `idle`."""
    while True:
        until_s = drawn[0][0] if drawn and drawn[0][0] < wait_s else wait_s
        while pool and (idle_s := most_s - most_s * share) <= until_s:
            at = int(random() * len(pool))
            pick, pool[at] = pool[at], pool[-1]
            pool.pop()
            if pool:
                share *= random() ** (1.0 / len(pool))
            yield idle_s, pick
        if drawn and drawn[0][0] <= wait_s:
            yield heappop(drawn)
        elif wait_s < inf:
            heappush(drawn, (wait_s + most_s * random(), node))
            wait_s, node = next(unread, _NONE)
        else:
            return


_NONE: Final = (inf, 0)
