"""Short jobs learn where long tasks are, and keep away from there: Succinct State Sharing (Eagle; thesis §3.3).

With every long task the central scheduler sends which nodes have long tasks. A node that has one refuses probes and
answers with what it was sent last. Refused probes are drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from policies.common.probing import draw


class Marks:
    """Which nodes had a long task, running or queued, when the central scheduler sent this."""

    __slots__ = ("_free", "_long", "number")

    def __init__(self, number: int, long: bytes) -> None:
        """number: grows with time. long: shape (nodes,), not 0 where a long task is."""
        self.number, self._long = number, long
        self._free: list[int] | None = None

    def free(self) -> list[int]:
        """Return the nodes without a long task."""
        if self._free is None:
            self._free = [node for node, long in enumerate(self._long) if not long]
        return self._free


def freshest(first: Marks | None, second: Marks | None) -> Marks | None:
    """Return the later state of the two."""
    if first is None or (second is not None and second.number > first.number):
        return second
    return first


def again(count: int, attempt: int, marks: Marks | None, last: Sequence[int], rng: Random) -> list[int]:
    """Return where `count` refused probes go now, shape (count,).

    attempt: 1 after the first refusal: any node that `marks` shows without a long task; from 2 on, and when there is no
    such node: one of `last`. last: the nodes that are kept for short jobs, or all when none is.
    """
    free = marks.free() if attempt == 1 and marks is not None else ()
    return draw(count, free or last, rng)
