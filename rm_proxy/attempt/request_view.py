"""Inputs of one request's decisions: the application, its queue and its mode, read from the cluster once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from policies.config.schema import Mode
from policies.model import AppView, QueueView, Resources
from rm_proxy.attempt.ask_entry import AskSums

_NOTHING = Resources()


@dataclass(slots=True)
class RequestView:
    """The application with all that its attempt holds and asks for, and its queue; both count own decisions."""

    app: AppView
    queue: QueueView
    mode: Mode
    queue_known: bool
    queue_before: QueueView
    """The queue without the decisions of this request."""
    precedences: frozenset[int]
    """Of the containers that occupy a node (`rm_proxy.attempt.frameworks`)."""
    open_q: int
    """Queueable containers wanted that are counted in it."""
    open_size: Resources
    _new_q: int = 0
    _new_size: Resources = _NOTHING

    def fits(self, sums: AskSums) -> bool:
        """Return whether it counts what the ask table wants now: else it has to be read anew."""
        return self.open_q == sums.open_q and self.open_size == sums.open_size

    def add(self, size: Resources) -> None:
        """Count one more queueable container; it shows in `app` and `queue` after `settle`."""
        self._new_q += 1
        self._new_size += size

    def settle(self) -> None:
        """Let `app` and `queue` show all containers that were added."""
        if not self._new_q:
            return
        count, size = self._new_q, self._new_size
        self._new_q, self._new_size = 0, _NOTHING
        self.open_q += count
        self.open_size += size
        self.app = replace(self.app, live_q=self.app.live_q + count, used_q=self.app.used_q + size)
        self.queue = self.queue.plus(self.app.user, size)
