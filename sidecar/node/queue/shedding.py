"""Chooses the waiting containers to shed under the proxy's limits for this queue (Mercury, ATC '15, §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quicksilver.common.messages import Targets
from sidecar.node.queue.waiting_queue import WaitingStart

EVERY_S: Final = 1.0
"""Time between two checks of the queue."""


def limits(targets: Targets) -> bool:
    """Return whether the targets limit the queue."""
    return targets.max_wait_s is not None or targets.max_queue is not None


def excess(
    waiting: Sequence[WaitingStart], starts_s: Sequence[float], targets: Targets, now_s: float
) -> list[tuple[str, str]]:
    """Return ids and reasons of the containers to shed, from the end of the queue; never its head.

    waiting: in the order in which they start; starts_s: when, in seconds from now, never decreasing. A container stays
    when its task was shed too often, or when it is so recent that the targets may not have counted it.
    """
    limit = max(1, int(len(waiting) * targets.max_share_ratio))
    shed: list[tuple[str, str]] = []
    for place in range(len(waiting) - 1, 0, -1):
        why = _beyond(place, starts_s[place], targets)
        if not why or len(shed) == limit:
            break
        view = waiting[place].view
        if view.sheds < targets.max_sheds and now_s - view.arrived_s >= targets.settle_s:
            shed.append((view.id, f"{why} ({targets.shed_reason})" if targets.shed_reason else why))
    return shed


def _beyond(place: int, starts_s: float, targets: Targets) -> str:
    """Return why a container is over a limit; "" when it is not. place: how many start before it."""
    if targets.max_queue is not None and place >= targets.max_queue:
        return f"{place} before it in the queue, the limit is {targets.max_queue}"
    if targets.max_wait_s is not None and starts_s > targets.max_wait_s:
        return f"it would start in {starts_s:.0f} s, the limit is {targets.max_wait_s:g} s"
    return ""
