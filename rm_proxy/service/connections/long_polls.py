"""The waiting calls of all connections: a timer for each, woken by the coordinator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, Protocol

from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.long_poll.long_poll import FAST_PACE_S, PACE_S
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.relay.commands import Answered

_LATEST_S: Final = 3600.0


class Waiting(Protocol):
    """A connection whose call waits."""

    def poll(self, now_s: float, pace_s: float) -> None:
        """Do what is due for its waiting call."""


class LongPolls:
    """Used in the event loop. calls_per_s: how many calls all waiting attempts together make a second, about."""

    def __init__(self, coordinator: Coordinator, metrics: ProxyMetrics, calls_per_s: float) -> None:
        self._coordinator, self._metrics, self._calls_per_s = coordinator, metrics, calls_per_s
        self._connections: dict[str, Waiting] = {}
        self._timers: dict[Waiting, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def pace_s(self) -> float:
        """The shortest time between two calls of one attempt: the more calls wait, the longer."""
        return min(PACE_S, max(FAST_PACE_S, len(self._connections) / self._calls_per_s))

    def waits(self, attempt_id: str, connection: Waiting) -> None:
        """Set the timer of a connection whose call waits."""
        attempt = self._coordinator.attempts.get(attempt_id)
        self._cancel(connection)
        if attempt is None:
            return
        self._connections[attempt_id] = connection
        self._coordinator.wakeups.waiting[attempt_id] = attempt
        loop = asyncio.get_running_loop()
        delay_s = min(_LATEST_S, max(0.0, attempt.long_poll.due_s(self.pace_s) - time.time()))
        self._timers[connection] = loop.call_later(delay_s, self._due, connection)

    def answered(self, command: Answered, connection: Waiting) -> None:
        """Forget a connection whose call waits no more."""
        self._cancel(connection)
        if self._connections.get(command.attempt_id) is connection:
            del self._connections[command.attempt_id]
            self._coordinator.wakeups.waiting.pop(command.attempt_id, None)
        self._metrics.long_polls.labels(command.why.value).observe(command.waited_s)

    def wake(self, attempt_ids: Iterable[str]) -> None:
        """Do what is due for these attempts, before their timers."""
        for attempt_id in attempt_ids:
            connection = self._connections.get(attempt_id)
            if connection is not None:
                connection.poll(time.time(), self.pace_s)

    def _cancel(self, connection: Waiting) -> None:
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _due(self, connection: Waiting) -> None:
        self._timers.pop(connection, None)
        connection.poll(time.time(), self.pace_s)
