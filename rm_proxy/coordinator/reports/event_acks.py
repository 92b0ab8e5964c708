"""Acknowledges events of the sidecars once the application master has confirmed their consequence.

Until then a sidecar keeps an event, and reports it to whichever proxy serves the attempt. So the end of a
container is not lost with the proxy to which it was first reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

KEPT_S: Final = 60.0
"""Longest time to keep an event whose application master does not confirm: later events have to come through."""


_NONE: Final = ("", dict[int, tuple[str, float]]())


class EventAcks:
    """The events of each node that are not settled, by number; those of an earlier boot of a sidecar are forgotten."""

    def __init__(self, settled: Callable[[str], bool]) -> None:
        """settled: whether a container's end is over, by its id."""
        self._settled = settled
        self._open: dict[str, tuple[str, dict[int, tuple[str, float]]]] = {}

    def keep(self, node_id: str, boot: str, seq: int, container_id: str, now_s: float) -> None:
        """Have an event kept until it is settled."""
        known, events = self._open.get(node_id, ("", {}))
        if known != boot:
            events = {}
            self._open[node_id] = boot, events
        events[seq] = container_id, now_s + KEPT_S

    def up_to(self, node_id: str, boot: str, seen: int, now_s: float) -> int:
        """Return the number up to which a node may forget its events; `seen` is that of the last one that came."""
        known, events = self._open.get(node_id, _NONE)
        if known != boot or not events:
            return seen
        for seq, (container_id, until_s) in list(events.items()):
            if until_s <= now_s or self._settled(container_id):
                del events[seq]
        return min(events, default=seen + 1) - 1

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._open.pop(node_id, None)

    def clear(self) -> None:
        """Forget all events: sidecars report them again to another proxy."""
        self._open.clear()
