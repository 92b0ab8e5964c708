"""Limits of connections: in all, of one host before the login, and of the memory for unfinished frames."""

from __future__ import annotations

from collections import Counter
from typing import Final

from quicksilver.common.http.acceptor import rest_limit
from quicksilver.common.process.limits import OTHER_FILES, raise_open_files
from rm_proxy.config import ProxySettings

SMALL_BYTES: Final = 1 << 20
"""A connection that holds no more bytes than this is never closed for the sum of all."""


class ConnectionLimits:
    """A machine: connections come, log in, hold bytes and leave.

    limit: connections at once; login_limit: connections of one host that have not logged in; byte_limit: bytes that all
    connections together may hold of unfinished frames.
    """

    def __init__(self, limit: int, login_limit: int, byte_limit: int) -> None:
        self.limit, self.login_limit, self.byte_limit = limit, login_limit, byte_limit
        self.inside = 0
        self.kept_bytes = 0
        self._logins: Counter[str] = Counter()

    @property
    def logins(self) -> int:
        """Connections that have not logged in."""
        return self._logins.total()

    def enter(self, host: str) -> str:
        """Count a new connection; return "", or the limit that refuses it: limit or host."""
        if self.inside >= self.limit:
            return "limit"
        if self._logins[host] >= self.login_limit:
            return "host"
        self.inside += 1
        self._logins[host] += 1
        return ""

    def logged_in(self, host: str) -> None:
        """Count a connection as logged in; one that is relayed unread counts as well."""
        self._logins[host] -= 1
        if self._logins[host] <= 0:
            del self._logins[host]

    def leave(self, host: str, logged_in: bool) -> None:
        """Remove a connection that was let in."""
        self.inside -= 1
        if not logged_in:
            self.logged_in(host)

    def keeps(self, before: int, now: int) -> bool:
        """Count the bytes that a connection held and holds; return whether it may stay open."""
        self.kept_bytes += now - before
        return now <= SMALL_BYTES or now <= before or self.kept_bytes <= self.byte_limit


def connection_limit(settings: ProxySettings) -> int:
    """Return how many connections of application masters may be open: each needs two files, and REST needs some."""
    wanted_files = 2 * settings.max_connections + settings.rest_connections
    allowed = raise_open_files(wanted_files, "proxy.max_connections, proxy.rest_connections")
    spare = allowed - OTHER_FILES - rest_limit(settings.rest_connections, allowed)
    return max(1, min(settings.max_connections, spare // 2))
