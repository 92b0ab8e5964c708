"""How long a task of any size would wait at a node, told in advance for some sizes (Apollo, OSDI '14, §3.2, §3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf

from pydantic import Field

from policies.base import PolicyConfig
from policies.model import Resources


class Confidence(PolicyConfig):
    """Settings of how a matrix is read that may be out of date."""

    fresh_s: float = Field(10.0, gt=0, json_schema_extra={"source": "own; Apollo §3.4: older ones are trusted less"})
    """A matrix of this age is read for twice the size, one of twice this age for three times, and so on."""


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

    def careful_wait(self, size: Resources, now_s: float, cfg: Confidence) -> float:
        """Return the wait with the doubt that the age of the matrix deserves: that of a larger task (§3.4).

        What exceeds the largest size told of is taken for that.
        """
        factor = 1 + max(0.0, now_s - self.at_s) // cfg.fresh_s
        larger = Resources(int(size.memory_mb * factor), size.vcores * factor)
        found_s = self.wait(larger, now_s)
        if found_s < inf:
            return found_s
        fitting = [told for told in self.wait_s if size.fits(told)]
        return max((self.wait(told, now_s) for told in fitting), default=inf)


def sizes(memory_mb: Iterable[int], vcores: Iterable[float]) -> list[Resources]:
    """Return the cells of a matrix: each amount of memory with each of vcores."""
    return [Resources(memory, cores) for memory, cores in product(memory_mb, vcores)]
