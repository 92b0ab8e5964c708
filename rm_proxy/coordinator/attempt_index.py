"""Index of all attempts: by id, by application, by the containers that they hold; and the few that are alive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from math import inf

from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain.ids import app_of_container


class UnjournaledEvents:
    """Events of sidecars whose consequences are not journaled yet, by the attempts and nodes that they concern.

    They wait for `delay_s` at most, so that one note says what many reports changed, most often that of the attempt's
    next exchange; until then their sidecars keep them, and would report them to the next process.
    """

    def __init__(self) -> None:
        self.delay_s = 0.0
        """How long they may wait."""
        self._due_s = inf
        self._attempts: dict[str, Attempt] = {}
        self._first: dict[str, int] = {}
        """By node: the number of its first such event."""

    def add(self, attempt: Attempt) -> None:
        """Note a change of an attempt that may not wait."""
        self._attempts[attempt.id] = attempt
        self._due_s = -inf

    def event(self, attempt: Attempt, node_id: str, seq: int, now_s: float) -> None:
        """Note an event of a container that its attempt holds."""
        self._attempts[attempt.id] = attempt
        if now_s + self.delay_s < self._due_s:
            self._due_s = now_s + self.delay_s
        if seq < self._first.get(node_id, inf):
            self._first[node_id] = seq

    def due(self, now_s: float) -> bool:
        """Return whether the attempts are to be journaled now, before another answer is sent to a sidecar."""
        return now_s >= self._due_s

    def up_to(self, node_id: str, last: int, now_s: float) -> int:
        """Return up to which number a node's events are journaled when those that are due are; `last`: of all."""
        return last if self.due(now_s) else min(last, self._first.get(node_id, last + 1) - 1)

    def take(self) -> Collection[Attempt]:
        """Return the attempts, which are journaled now."""
        attempts, self._attempts, self._first = self._attempts, {}, {}
        self._due_s = inf
        return attempts.values()


class AttemptIndex(OrderedDict[str, Attempt]):
    """All remembered attempts in order of arrival; the work of each second only needs `living`."""

    def __init__(self) -> None:
        super().__init__()
        self.by_app: dict[str, list[Attempt]] = {}
        """By application, the oldest first."""
        self._living: dict[str, Attempt] = {}
        """Attempts that live, and those that ended since `closed` was called."""
        self.unjournaled = UnjournaledEvents()

    def __setitem__(self, attempt_id: str, attempt: Attempt) -> None:
        """Remember an attempt, in place of another of its id."""
        super().__setitem__(attempt_id, attempt)
        self._living[attempt_id] = attempt

    def clear(self) -> None:
        """Forget all attempts."""
        super().clear()
        self.by_app.clear()

    def forget_app(self, app_id: str) -> list[Attempt]:
        """Forget the attempts of an application; returns them."""
        attempts = self.by_app.pop(app_id, [])
        for attempt in attempts:
            self.pop(attempt.id, None)
        return attempts

    def living(self) -> Iterator[Attempt]:
        """Yield the attempts that live."""
        return (attempt for attempt in self.recent() if not attempt.finished)

    def living_of(self, app_id: str) -> list[Attempt]:
        """Return the attempts of an application that live."""
        return [attempt for attempt in self.by_app.get(app_id, ()) if not attempt.finished]

    def recent(self) -> list[Attempt]:
        """Return the attempts that live, or ended since `closed` was called."""
        return [attempt for attempt in self._living.values() if self.get(attempt.id) is attempt]

    def closed(self) -> None:
        """Drop ended attempts from `recent`: their work is done."""
        for attempt_id in [i for i, a in self._living.items() if a.finished or self.get(i) is not a]:
            del self._living[attempt_id]

    def holder(self, container_id: str) -> Attempt | None:
        """Return the attempt that holds a container: its own one, or a later one that took it over."""
        for attempt in reversed(self.by_app.get(app_of_container(container_id), ())):
            if attempt.containers.hears_of(container_id):
                return attempt
        return None

    def is_held(self, container_id: str) -> bool:
        """Return whether an attempt holds a container."""
        return self.holder(container_id) is not None

    def live(self, container_id: str) -> HeldContainer | None:
        """Return a container that an application holds, None when none does."""
        attempt = self.holder(container_id)
        return attempt.live.get(container_id) if attempt is not None else None
