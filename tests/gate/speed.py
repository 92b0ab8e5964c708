"""How slow this machine is just now: a step's bound of CPU seconds holds for a machine of a known speed.

A core that shares its caches and clock with others, or an older one, takes more CPU seconds for the same work.
"""

from __future__ import annotations

import time
from typing import Final

EVERY_S: Final = 5.0
_LOOPS: Final = 200_000
_REFERENCE_S: Final = 0.010
"""CPU seconds that the loop takes where the bounds were measured."""


class Slowness:
    """Measures, beside what runs, how many CPU seconds a fixed piece of work takes."""

    def __init__(self) -> None:
        self._due_s, self._took_s, self._count = 0.0, 0.0, 0

    def look(self) -> None:
        """Measure if the last time is a while ago; takes some ms."""
        if time.monotonic() >= self._due_s:
            self._took_s += _work_s()
            self._count += 1
            self._due_s = time.monotonic() + EVERY_S

    @property
    def ratio(self) -> float:
        """How many times as long as at the reference it took, in the mean; 1 before the first measurement."""
        return self._took_s / self._count / _REFERENCE_S if self._count else 1.0


def _work_s() -> float:
    begin_s, total = time.thread_time(), 0
    for number in range(_LOOPS):
        total += number
    return time.thread_time() - begin_s
