"""How slow this machine is just now: a step's bound of CPU seconds holds for a machine of a known speed.

A core that shares its caches and clock with others, or an older one, takes more CPU seconds for the same work.
"""

from __future__ import annotations

import json
import time
from typing import Final

EVERY_S: Final = 5.0
_RECORDS: Final = 2_000
_REFERENCE_S: Final = 0.020
"""CPU seconds that the work takes where the bounds were measured."""


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
        """How many times as long as at the reference it took, in the mean; 1 on faster machines, too."""
        return max(1.0, self._took_s / self._count / _REFERENCE_S) if self._count else 1.0


def _work_s() -> float:
    """Return the CPU seconds of some work on objects, as tests do: a loop over numbers alone needs no memory."""
    begin_s = time.thread_time()
    records = [{"number": number, "text": str(number), "list": [number] * 20} for number in range(_RECORDS)]
    if json.loads(json.dumps(records)) != records:
        raise AssertionError("JSON lost something")
    return time.thread_time() - begin_s
