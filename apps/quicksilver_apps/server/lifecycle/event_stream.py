"""Changes of state as they happen, for clients that listen; bounded for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quicksilver_apps.server.records import StateChange


class StreamListener:
    """One client's queue."""

    def __init__(self, limit: int, wants: Callable[[StateChange], bool]) -> None:
        self.queue: asyncio.Queue[StateChange] = asyncio.Queue(limit)
        self.wants = wants
        self.late = False
        """Whether it missed something, because it read too slowly."""


class EventStream:
    """Passes changes on to listeners; used in one event loop."""

    def __init__(self, clients: int, limit: int) -> None:
        """clients: listeners at once; limit: changes that may wait for one."""
        self._clients, self._limit = clients, limit
        self._listeners: set[StreamListener] = set()

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def is_full(self) -> bool:
        """Whether there is no place for one more listener."""
        return len(self._listeners) >= self._clients

    def publish(self, change: StateChange) -> None:
        """Pass a change on; a listener without room misses it, and is marked late."""
        for listener in self._listeners:
            if listener.late or not listener.wants(change):
                continue
            try:
                listener.queue.put_nowait(change)
            except asyncio.QueueFull:
                listener.late = True

    def listen(self, wants: Callable[[StateChange], bool]) -> StreamListener | None:
        """Return a new listener; None when there are too many."""
        if self.is_full:
            return None
        listener = StreamListener(self._limit, wants)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: StreamListener) -> None:
        """Forget a listener."""
        self._listeners.discard(listener)
