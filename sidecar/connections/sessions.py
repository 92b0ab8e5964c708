"""Which connections can carry calls of our own: by application attempt, those that outlived their client first."""

from __future__ import annotations

from sidecar.connections.connection import Link


class Sessions:
    """The authenticated links of all attempts whose NodeManager side is open."""

    def __init__(self) -> None:
        self._of: dict[str, list[Link]] = {}

    def add(self, attempt_id: str, link: Link) -> None:
        """Enter a link that the NodeManager let in."""
        self._of.setdefault(attempt_id, []).append(link)

    def remove(self, link: Link) -> bool:
        """Take a link out; return whether it was its attempt's last."""
        links = self._of.get(link.gate.attempt_id, [])
        if link not in links:
            return False
        links.remove(link)
        if links:
            return False
        del self._of[link.gate.attempt_id]
        return True

    def all(self, attempt_id: str) -> list[Link]:
        """Return the attempt's links."""
        return list(self._of.get(attempt_id, ()))

    def best(self, attempt_id: str) -> Link | None:
        """Return a link to call on: a kept one, else any; None without a session."""
        links = [link for link in self._of.get(attempt_id, ()) if link.usable]
        return next((link for link in links if link.kept), links[0] if links else None)

    def has_other_kept(self, link: Link) -> bool:
        """Tell whether another session of the attempt is kept already."""
        return any(other is not link and other.kept for other in self._of.get(link.gate.attempt_id, ()))

    def kept(self) -> list[Link]:
        """Return all sessions that outlived their clients."""
        return [link for links in self._of.values() for link in links if link.kept]
