"""How often a costly list is read: reading it takes a small share of a core at most."""

from __future__ import annotations

from typing import Final

MAX_SHARE: Final = 0.02
"""Of a core, in CPU seconds for a second."""


class ReadingPace:
    """Tells when a list, which is read each `interval_s` seconds as a rule, may be read again."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s, self._next_s = interval_s, 0.0

    def due(self, now_s: float) -> bool:
        """Return whether the list is to be read now."""
        return now_s >= self._next_s

    def took(self, cost_s: float, now_s: float) -> None:
        """Note the CPU seconds that a reading took, which ended at `now_s`."""
        pause_s = cost_s / MAX_SHARE
        self._next_s = now_s + pause_s if pause_s > self._interval_s else now_s
