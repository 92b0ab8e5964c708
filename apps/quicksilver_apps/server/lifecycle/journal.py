"""The one place where states change: stored first, then counted and passed on to who listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from quicksilver_apps.server.lifecycle.event_stream import EventStream
from quicksilver_apps.server.metrics import AppServerMetrics
from quicksilver_apps.server.records import ServedApplication, StateChange
from quicksilver_apps.server.states import State
from quicksilver_apps.server.store import applications
from quicksilver_apps.server.store.database import Database


class EventJournal:
    """Moves applications from state to state."""

    def __init__(
        self,
        database: Database,
        stream: EventStream,
        metrics: AppServerMetrics,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self.database, self.stream, self.metrics, self.clock_s = database, stream, metrics, clock_s

    async def receive(self, record: ServedApplication) -> bool:
        """Store a new application; returns whether it was new. Raises StoreUnavailableError."""
        change = await self.database.write(lambda connection: applications.receive(connection, record))
        self._publish(change)
        return change is not None

    async def move(self, record: ServedApplication, target: State, why: str, **fields: Any) -> bool:
        """Change the state of an application; returns False when it is in another state than `record` says meanwhile.

        Raises UnexpectedMoveError, StoreUnavailableError.
        """
        now_s = self.clock_s()
        change = await self.database.write(
            lambda connection: applications.move(connection, record.id, record.state, target, why, now_s, **fields)
        )
        self._publish(change)
        return change is not None

    async def note(self, record: ServedApplication, **fields: Any) -> None:
        """Store other fields of an application. Raises StoreUnavailableError."""
        await self.database.write(lambda connection: applications.note(connection, record.id, **fields))

    def _publish(self, change: StateChange | None) -> None:
        if change is not None:
            self.metrics.transitions.labels(change.target).inc()
            self.stream.publish(change)
