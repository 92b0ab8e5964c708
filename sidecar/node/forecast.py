"""Simulates a node: when each waiting container starts if the running ones end as expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policies.model import Resources
from sidecar.node.container import GUARANTEED, Container
from sidecar.node.node_room import NodeRoom
from sidecar.node.queue.wait_estimate import CoreRoom, WaitingJob, remaining_s, starts_s, wait_matrix
from sidecar.node.queue.waiting_queue import WaitingStart

TYPICAL: Final = Resources(1024, 1)
"""Assumed size of the next container while none has arrived."""
DEFAULT_S: Final = 10.0
"""Expected run time of a container without an estimate."""


class Forecast:
    """Forecast of a node at a moment; times are seconds from that moment."""

    def __init__(self, room: NodeRoom, now_s: float, default_expected_s: float = DEFAULT_S) -> None:
        state = room.state
        self.waiting: Sequence[WaitingStart] = state.queue.in_order(now_s)
        """In the order in which they will start."""
        self._running = [job_of(room, c, now_s, default_expected_s) for c in state.using() if not c.start.am]
        self._jobs = jobs = [WaitingJob(room.counted(w.view.resources), w.view.expected_s) for w in self.waiting]
        self._space = space = CoreRoom(room.counted(room.free_for_queueable()), room.left_q())
        self.starts_s: Sequence[float] = starts_s(space, self._running, jobs)
        """When each of `waiting` starts; it never decreases."""
        next_one = jobs[0].resources if jobs else room.counted(TYPICAL)
        self.remaining_s = remaining_s(space, self._running, next_one)
        """Tr."""

    def waits_s(self, sizes: Sequence[Resources]) -> list[float]:
        """Return when a container of each size would start behind the whole queue (Apollo §3.2)."""
        waits_s = wait_matrix(self._space, self._running, self._jobs, sizes, 0.0).wait_s
        return [waits_s[size] for size in sizes]

    @property
    def queued_s(self) -> float:
        """Tq: when the last waiting container starts."""
        return self.starts_s[-1] if self.starts_s else 0.0

    def delay_s(self, number: int) -> float:
        """Return how much later the others start, the one that is delayed most, if this one of `waiting` starts now."""
        others = [*self._jobs[:number], *self._jobs[number + 1 :]]
        before = [*self.starts_s[:number], *self.starts_s[number + 1 :]]
        after = starts_s(self._space, self._running, [self._jobs[number], *others])[1:]
        return max((late - soon for late, soon in zip(after, before, strict=True)), default=0.0)


def job_of(room: NodeRoom, container: Container, now_s: float, default_expected_s: float) -> WaitingJob:
    """Return a container that uses the node in the form of the estimate."""
    begun_s = container.started_s if container.started_s is not None else now_s
    return WaitingJob(
        room.counted(container.start.resources),
        container.expected_s or default_expected_s,
        max(0.0, now_s - begun_s),
        container.spread_s,
        container.kind != GUARANTEED,
    )
