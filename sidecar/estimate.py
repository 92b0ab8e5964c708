"""How long a node would let a queueable container wait: Tq, Tr and Tl of Mercury (ATC '15, §4.2).

Mercury ranks nodes by R = Tq + Tr + Tl. Here, of one node:

- Tq (`queued_s`): when all that is queued now will have started, by playing the node forward: running containers end
  when their expected time is over, the queue is served in its order, each container starts as soon as it fits.
- Tr (`remaining_s`): time until the first running container ends; 0 when the next one would find room now.
- Tl (`since_queueable_s`): time since a queueable container last ran; 0 while one runs, and before any has.

What a container has left is its expectation given that it has run so far (`policies.remaining`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policies.model import Resources
from policies.remaining import left_s


@dataclass(frozen=True, slots=True)
class Job:
    """What the estimate needs of a container: size, expected run time, and how long it has run (0 when it waits)."""

    resources: Resources
    expected_s: float
    ran_s: float = 0.0
    spread_s: float = 0.0
    """Standard deviation of the run time; 0 when not known."""

    def remaining_s(self) -> float:
        """Return how much longer it is expected to run."""
        return left_s(self.expected_s, self.spread_s, self.ran_s)


def queued_s(free: Resources, running: Iterable[Job], waiting: Sequence[Job]) -> float:
    """Return Tq in seconds: when the last of `waiting` (in the queue's order) starts, counted from now.

    A container that does not even fit when everything else is over starts then.
    """
    ends = [(job.remaining_s(), number, job.resources) for number, job in enumerate(running)]
    heapq.heapify(ends)
    number, at_s = len(ends), 0.0
    for job in waiting:
        while ends and not job.resources.fits(free):
            at_s, _, resources = heapq.heappop(ends)
            free = free + resources
        free = free - job.resources
        heapq.heappush(ends, (at_s + job.expected_s, number, job.resources))
        number += 1
    return at_s


def remaining_s(free: Resources, running: Iterable[Job], next_one: Resources) -> float:
    """Return Tr in seconds: 0 when `next_one` fits into `free`, else the time until the first of `running` ends."""
    if next_one.fits(free):
        return 0.0
    return min((job.remaining_s() for job in running), default=0.0)
