"""Estimates how long a queueable container would wait at a node: Tq, Tr and Tl of Mercury (ATC '15, §4.2).

Mercury ranks nodes by R = Tq + Tr + Tl. Here, of one node:

- Tq (the last of `starts_s`): when all that is queued now will have started, by playing the node forward: running
  containers end when their expected time is over, the queue is served in its order, each starts as soon as it fits.
- Tr (`remaining_s`): time until the first running container ends; 0 when the next one would find room now.
- Tl (`since_queueable_s`): time since a queueable container last ran; 0 while one runs, and before any has.

What a container has left is its expectation given that it has run so far (`policies.common.remaining_time`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from policies.common.remaining_time import left_s
from policies.common.wait_matrix import WaitMatrix
from policies.model import Resources

LIMITED_S: Final = 600.0
"""Minimum wait of a container that would not fit, or would exceed the limit of queueable ones, whatever ends."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A container in the estimate: size, expected run time, and time it has run (0 while it waits)."""

    resources: Resources
    expected_s: float
    ran_s: float = 0.0
    spread_s: float = 0.0
    """Standard deviation of the run time; 0 when not known."""
    queueable: bool = True
    """Whether it counts in the limit of queueable containers."""

    def remaining_s(self) -> float:
        """Return how much longer it is expected to run."""
        return left_s(self.expected_s, self.spread_s, self.ran_s)


@dataclass(frozen=True, slots=True)
class CoreRoom:
    """Free resources, and the part that the `police` policy leaves to queueable containers (None: all)."""

    free: Resources
    left_q: Resources | None = None

    def takes(self, need: Resources) -> bool:
        """Return whether a queueable container of this size would start now."""
        return need.fits(self.free) and (self.left_q is None or need.fits(self.left_q))

    def after(self, job: WaitingJob) -> CoreRoom:
        """Return the room after a container has ended."""
        left_q = self.left_q + job.resources if self.left_q is not None and job.queueable else self.left_q
        return CoreRoom(self.free + job.resources, left_q)

    def less(self, job: WaitingJob) -> CoreRoom:
        """Return the room after a queueable container has started."""
        return CoreRoom(self.free - job.resources, None if self.left_q is None else self.left_q - job.resources)


def starts_s(room: CoreRoom, running: Iterable[WaitingJob], waiting: Sequence[WaitingJob]) -> list[float]:
    """Return when each of `waiting` (in the queue's order) starts, in seconds from now; the last one's is Tq.

    A container that does not even fit when everything else is over (an application master, which is none of `running`,
    has the room, or the limit of queueable containers is too small), and all behind it, not before LIMITED_S.
    """
    ends = [(job.remaining_s(), number, job) for number, job in enumerate(running)]
    heapq.heapify(ends)
    number, at_s = len(ends), 0.0
    starts = []
    for job in waiting:
        while ends and not room.takes(job.resources):
            at_s, _, over = heapq.heappop(ends)
            room = room.after(over)
        if not room.takes(job.resources):
            at_s = max(at_s, LIMITED_S)
        room = room.less(job)
        heapq.heappush(ends, (at_s + job.expected_s, number, job))
        number += 1
        starts.append(at_s)
    return starts


def remaining_s(room: CoreRoom, running: Iterable[WaitingJob], next_one: Resources) -> float:
    """Return Tr in seconds: 0 when `next_one` would start now, else the time until the first of `running` ends.

    Where the limit of queueable containers is in its way only those of them that run can make room; when none can,
    nothing is expected for LIMITED_S.
    """
    if room.takes(next_one):
        return 0.0
    limited = room.left_q is not None and not next_one.fits(room.left_q)
    ends = (job.remaining_s() for job in running if job.queueable or not limited)
    return min(ends, default=LIMITED_S)


def wait_matrix(
    room: CoreRoom,
    running: Sequence[WaitingJob],
    waiting: Sequence[WaitingJob],
    sizes: Iterable[Resources],
    now_s: float,
) -> WaitMatrix:
    """Return when a container of each size would start behind the whole queue if it arrived now (Apollo §3.2)."""
    return WaitMatrix(now_s, {size: starts_s(room, running, [*waiting, WaitingJob(size, 0.0)])[-1] for size in sizes})
