"""The heartbeats of an application that waits for places: until when it counts as alive, by its own interval.

MapReduce and Tez heartbeat each second, Spark every three. A claim has to last until the next heartbeat, or every place
that comes free shortly before it goes to another application; and no longer than that where the master is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEAST_S: Final = 2.5
"""An application counts as alive for at least so long after a heartbeat (own)."""
LIMIT_S: Final = 10.0
"""And no longer than this, whatever its interval (own)."""
INTERVALS: Final = 2.0
"""Intervals for which it counts as alive (own)."""
ASSUMED_S: Final = 2.0
"""Interval of which the first two are assumed to be (own)."""


@dataclass(slots=True)
class Heartbeats:
    """The last heartbeat of one application, and the last two intervals; times in seconds."""

    last_s: float
    intervals_s: tuple[float, float] = (ASSUMED_S, ASSUMED_S)

    def beat(self, now_s: float) -> None:
        """Handle a heartbeat; a second message at the same time is none."""
        if now_s > self.last_s:
            self.intervals_s = self.intervals_s[1], now_s - self.last_s
        self.last_s = now_s

    @property
    def alive_until_s(self) -> float:
        """Until when the application counts as alive."""
        return self.last_s + min(LIMIT_S, max(LEAST_S, INTERVALS * max(self.intervals_s)))
