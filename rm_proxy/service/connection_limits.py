"""Who may come in: connections in all, of one host before their login, and what all of them keep unread."""

from __future__ import annotations

from collections import Counter
from typing import Final

SMALL_BYTES: Final = 1 << 20
"""A connection that keeps no more than this is never closed for what all of them keep."""


class ConnectionLimits:
    """A machine: connections come, log in, keep bytes and leave.

    most: connections at once; most_logins: of them those of one host that have not logged in; most_bytes: what all
    connections together may keep of frames that are not there whole.
    """

    def __init__(self, most: int, most_logins: int, most_bytes: int) -> None:
        self.most, self.most_logins, self.most_bytes = most, most_logins, most_bytes
        self.inside = 0
        self.kept_bytes = 0
        self._logins: Counter[str] = Counter()

    @property
    def logins(self) -> int:
        """Connections that have not logged in."""
        return self._logins.total()

    def enter(self, host: str) -> str:
        """Let a connection in; returns "", or by which limit it is refused: limit or host."""
        if self.inside >= self.most:
            return "limit"
        if self._logins[host] >= self.most_logins:
            return "host"
        self.inside += 1
        self._logins[host] += 1
        return ""

    def logged_in(self, host: str) -> None:
        """Take in that a connection logged in, or that it is relayed unread."""
        self._logins[host] -= 1
        if self._logins[host] <= 0:
            del self._logins[host]

    def leave(self, host: str, logged_in: bool) -> None:
        """Take in that a connection that was let in is gone."""
        self.inside -= 1
        if not logged_in:
            self.logged_in(host)

    def keeps(self, before: int, now: int) -> bool:
        """Take in how many bytes a connection kept and keeps; returns whether it may."""
        self.kept_bytes += now - before
        return now <= SMALL_BYTES or now <= before or self.kept_bytes <= self.most_bytes
