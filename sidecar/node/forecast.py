"""A node played forward: when each waiting container starts, by what is expected of those that run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policies.model import Resources
from sidecar.node.container import GUARANTEED, Entry
from sidecar.node.node_state import Book
from sidecar.node.wait_estimate import Job, Room, remaining_s, starts_s
from sidecar.node.waiting_queue import Waiting

TYPICAL: Final = Resources(1024, 1)
"""The size of the next container where none ever came."""
DEFAULT_S: Final = 10.0
"""How long a container is expected to run that nobody estimated."""


class Forecast:
    """What is expected of a node at a moment; times are seconds from it."""

    def __init__(self, book: Book, now_s: float, default_expected_s: float = DEFAULT_S) -> None:
        self.waiting: Sequence[Waiting] = book.queue.in_order(now_s)
        """In the order in which they will start."""
        running = [job_of(book, e, now_s, default_expected_s) for e in book.using() if not e.start.am]
        jobs = [Job(book.counted(w.view.resources), w.view.expected_s) for w in self.waiting]
        room = Room(book.counted(book.free_for_queueable()), book.left_for_queueable())
        self.starts_s: Sequence[float] = starts_s(room, running, jobs)
        """When each of `waiting` starts; it never decreases."""
        next_one = jobs[0].resources if jobs else book.counted(TYPICAL)
        self.remaining_s = remaining_s(room, running, next_one)
        """Tr."""

    @property
    def queued_s(self) -> float:
        """Tq: when the last of those that wait starts."""
        return self.starts_s[-1] if self.starts_s else 0.0


def job_of(book: Book, entry: Entry, now_s: float, default_expected_s: float) -> Job:
    """Return what the estimate needs of a container that uses the node."""
    begun_s = entry.started_s if entry.started_s is not None else now_s
    return Job(
        book.counted(entry.start.resources),
        entry.expected_s or default_expected_s,
        max(0.0, now_s - begun_s),
        entry.spread_s,
        entry.kind != GUARANTEED,
    )
