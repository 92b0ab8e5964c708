"""Which connection of REST is closed when there are too many: the host with most of those that wait for a request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class IdleConnections(Generic[T]):
    """Connections that wait for a request of their client, by host; each operation takes the same time for any number.

    So a host that opens connections and stays silent loses its own, and every other host keeps its one.
    """

    def __init__(self) -> None:
        self._host_of: dict[T, str] = {}
        self._of_host: dict[str, dict[T, None]] = {}
        """By host, the one that has waited longest first."""
        self._hosts_with: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """By number of connections: the hosts with so many, the one that reached the number first at the front."""
        self._highest = 0
        """The number of connections of the host with most."""

    def __len__(self) -> int:
        return len(self._host_of)

    def add(self, connection: T, host: str) -> None:
        """Note that a connection begins to wait, unless it does already."""
        if connection in self._host_of:
            return
        self._host_of[connection] = host
        own = self._of_host.setdefault(host, {})
        own[connection] = None
        self._count(host, len(own) - 1, len(own))

    def discard(self, connection: T) -> None:
        """Note that a connection waits no more."""
        host = self._host_of.pop(connection, None)
        if host is None:
            return
        own = self._of_host[host]
        del own[connection]
        self._count(host, len(own) + 1, len(own))
        if not own:
            del self._of_host[host]

    def pop(self) -> T | None:
        """Remove and return the one that has waited longest of the host with most; None when none waits."""
        if not self._host_of:
            return None
        host = next(iter(self._hosts_with[self._highest]))
        connection = next(iter(self._of_host[host]))
        self.discard(connection)
        return connection

    def _count(self, host: str, before: int, now: int) -> None:
        """Move a host from the ones with `before` connections to those with `now`, which is one more or one less."""
        if before:
            del self._hosts_with[before][host]
        if now:
            self._hosts_with[now][host] = None
        if now > self._highest or (before == self._highest and not self._hosts_with[before]):
            self._highest = now
        if before and not self._hosts_with[before]:
            del self._hosts_with[before]
