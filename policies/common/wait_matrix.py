"""How long a task of any size would wait at a node, told in advance for some sizes (Apollo, OSDI '14, §3.2, §3.4)."""

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

        That is the wait of the smallest size told of which it fits into, less the time that went by since; infinity
        when it fits into none.
        """
        waits = (seconds for told, seconds in self.wait_s.items() if size.fits(told))
        return max(0.0, min(waits, default=inf) - max(0.0, now_s - self.at_s))
