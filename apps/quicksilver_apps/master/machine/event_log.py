"""The newest events of an application, for people; each has a sequence number."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

LIMIT: Final = 200


class EventLog:
    """A ring of the newest LIMIT events; the first one has the number 1."""

    def __init__(self) -> None:
        """Begin without any."""
        self._ring: deque[dict[str, Any]] = deque(maxlen=LIMIT)
        self.last = 0

    def add(self, at_s: float, text: str, service: str = "", index: int | None = None) -> None:
        """Add one; `service` "" stands for the application, `index` None for the whole service."""
        self.last += 1
        self._ring.append({"seq": self.last, "at_s": at_s, "service": service, "index": index, "text": text})

    def after(self, seq: int) -> list[dict[str, Any]]:
        """Return those with higher numbers than `seq` that are still there, oldest first."""
        return [each for each in self._ring if each["seq"] > seq]
