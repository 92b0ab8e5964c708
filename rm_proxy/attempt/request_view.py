"""Inputs of one request's decisions: the application, its queue and its mode, read from the cluster once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from policies.config.schema import Mode
from policies.model import AppView, QueueView, Resources
from rm_proxy.attempt.ask_entry import AskSums


@dataclass(slots=True)
class RequestView:
    """The application with all that its attempt holds and asks for, and its queue; both count own decisions."""

    app: AppView
    queue: QueueView
    mode: Mode
    queue_known: bool
    precedences: frozenset[int]
    """Of the containers that occupy a node (`rm_proxy.attempt.frameworks`)."""
    open_q: int
    """Queueable containers wanted that are counted in it."""
    asked_size: Resources
    """Size of those that are asked for at a node."""
    _new_q: int = 0

    def fits(self, sums: AskSums) -> bool:
        """Return whether it counts what the ask table wants now: else it has to be read anew."""
        return self.open_q == sums.open_q and self.asked_size == sums.asked_size

    def add(self) -> None:
        """Count one more wanted container that is queueable; it shows in `app` after `settle`."""
        self._new_q += 1

    def settle(self) -> None:
        """Let `app` show all containers that were added."""
        count, self._new_q = self._new_q, 0
        if count:
            self.open_q += count
            self.app = replace(self.app, live_q=self.app.live_q + count)

    def bind(self, size: Resources) -> None:
        """Count one more container that is asked for at a node."""
        self.asked_size += size
        self.app = replace(self.app, used_q=self.app.used_q + size)
        self.queue = self.queue.plus(self.app.user, size)
