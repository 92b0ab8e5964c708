"""The connections that can carry our own calls, by application attempt; those that outlived their client first."""

from __future__ import annotations

from sidecar.connections.connection import Connection


class Sessions:
    """The authenticated connections of all attempts whose NodeManager side is open."""

    def __init__(self) -> None:
        self._of: dict[str, list[Connection]] = {}

    def add(self, attempt_id: str, connection: Connection) -> None:
        """Add a connection whose login the NodeManager accepted."""
        self._of.setdefault(attempt_id, []).append(connection)

    def remove(self, connection: Connection) -> bool:
        """Remove a connection; return whether it was its attempt's last."""
        connections = self._of.get(connection.gate.attempt_id, [])
        if connection not in connections:
            return False
        connections.remove(connection)
        if connections:
            return False
        del self._of[connection.gate.attempt_id]
        return True

    def all(self, attempt_id: str) -> list[Connection]:
        """Return the attempt's connections."""
        return list(self._of.get(attempt_id, ()))

    def best(self, attempt_id: str) -> Connection | None:
        """Return a connection to call on: an orphan, else any; None without a session."""
        connections = [connection for connection in self._of.get(attempt_id, ()) if connection.usable]
        return next(
            (connection for connection in connections if connection.is_orphan), connections[0] if connections else None
        )

    def has_other_orphan(self, connection: Connection) -> bool:
        """Return whether the attempt has another orphan already."""
        return any(peer is not connection and peer.is_orphan for peer in self._of.get(connection.gate.attempt_id, ()))

    def orphans(self) -> list[Connection]:
        """Return all sessions that outlived their clients."""
        return [connection for connections in self._of.values() for connection in connections if connection.is_orphan]
