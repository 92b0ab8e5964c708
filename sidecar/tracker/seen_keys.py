"""What a relay's connections do with the master keys that they see."""

from __future__ import annotations

from typing import Protocol

from sidecar.tracker.relay import NodeKeysSeen


class SeenKeys(Protocol):
    """Sends them on; `run` ends when it is cancelled."""

    def report(self, seen: NodeKeysSeen) -> None:
        """Note the keys of a NodeManager."""

    async def run(self) -> None:
        """Send what is noted."""
