"""How long a task of any size would wait at a node, from waits reported by size (Apollo, OSDI '14, §3.2, §3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from policies.model import Resources


@dataclass(frozen=True, slots=True)
class WaitMatrix:
    """A node's expected waits by size, as it made them at a time."""

    at_s: float
    wait_s: Mapping[Resources, float]
    """A larger size never waits less."""

    def wait(self, size: Resources, now_s: float) -> float:
        """Return how long a task of this size would wait from `now_s` on.

        That is the wait of the smallest reported size that it fits into, less the time since the report; infinity
        when it fits into none.
        """
        waits = (seconds for reported, seconds in self.wait_s.items() if size.fits(reported))
        return max(0.0, min(waits, default=inf) - max(0.0, now_s - self.at_s))
