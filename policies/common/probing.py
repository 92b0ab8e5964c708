"""Where a job's probes go: batch sampling (Sparrow, as Hawk §2.3.5 and Eagle §3.3.3 use it).

A probe holds a place in a node's queue for its job; the node asks for a task when its turn comes (late binding).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import TypeVar

T = TypeVar("T")


def probes(tasks: int, ratio: float, least: int = 0) -> int:
    """Return how many probes a job of so many tasks sends: `ratio` per task, never fewer than tasks or `least`.

    Sparrow and Hawk send 2 per task; Eagle at least 20 per job, so that one of a small job finds an idle node (§3.5).
    """
    return max(ceil(tasks * ratio), tasks, least) if tasks else 0


def draw(count: int, nodes: Sequence[T], rng: Random, distinct: bool = False) -> list[T]:
    """Return `count` of the nodes at random, shape (count,).

    distinct: none of them twice before each was drawn; else each by itself. Raises IndexError for no nodes.
    """
    if not distinct:
        return rng.choices(nodes, k=count)
    rounds, rest = divmod(count, len(nodes)) if nodes else (0, count)
    if rest and not nodes:
        raise IndexError("no node to draw from")
    return list(nodes) * rounds + rng.sample(nodes, rest)
