"""Which waiting calls there is something for: marks of the coordinator, taken by the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from rm_proxy.long_poll.long_poll import LongPoll

MAX_PLACED_FOR: Final = 16
"""Attempts for which places are tried at one report."""


class Waiter(Protocol):
    """An application attempt whose call may wait."""

    @property
    def long_poll(self) -> LongPoll:
        """Its wait."""

    @property
    def has_unplaced(self) -> bool:
        """Whether it has queueable containers without a node."""

    @property
    def has_to_send(self) -> bool:
        """Whether the next exchange has completions, releases or promotions of ours."""

    def place(self, now_s: float) -> bool:
        """Place its queueable containers; returns whether any got a node."""


class Wakeups:
    """A machine: events of containers and nodes in, ids of attempts whose calls are due out."""

    def __init__(self) -> None:
        self.order: Callable[[float], Iterable[str]] = lambda now_s: self.waiting
        """Returns the attempts that shall get free places, the first ones first; by default as they began to wait."""
        self.waiting: dict[str, Waiter] = {}
        """Attempts whose call waits now, as they began; the service keeps it."""
        self._due: dict[str, None] = {}

    def event(self, attempt_id: str, ended: bool, now_s: float) -> None:
        """Handle a sidecar's event of a container; ended: whether its end was reported."""
        waiter = self.waiting.get(attempt_id)
        if waiter is None:
            return
        if waiter.has_to_send:
            waiter.long_poll.to_send(now_s)
        elif ended:
            waiter.long_poll.container_ended(now_s)
        else:
            return
        self._due[attempt_id] = None

    def places_free(self, now_s: float) -> None:
        """Place containers of waiting attempts: a node reported room."""
        if not self.waiting:
            return
        remainder = MAX_PLACED_FOR
        for attempt_id in list(self.order(now_s)):
            waiter = self.waiting.get(attempt_id)
            if waiter is None or not waiter.has_unplaced:
                continue
            if waiter.place(now_s):
                waiter.long_poll.to_send(now_s, gather=waiter.has_unplaced)
                self._due[attempt_id] = None
            remainder -= 1
            if remainder <= 0:
                return

    def granted(self, attempt_id: str, now_s: float) -> None:
        """Handle that an application may have more containers than before: it asks for them."""
        waiter = self.waiting.get(attempt_id)
        if waiter is not None and waiter.has_unplaced:
            waiter.long_poll.to_send(now_s)
            self._due[attempt_id] = None

    def round(self, now_s: float, changed: bool = False) -> None:
        """Have those called for that have something to send; changed: all, since settings or modes changed."""
        for attempt_id, waiter in self.waiting.items():
            if changed or waiter.has_to_send:
                waiter.long_poll.to_send(now_s)
                self._due[attempt_id] = None

    def take(self) -> list[str]:
        """Return the attempts that are due, and forget them."""
        due, self._due = self._due, {}
        return list(due)
