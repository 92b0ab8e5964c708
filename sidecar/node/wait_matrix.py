"""A node's wait-time matrix, by playing it forward for a container of each size (Apollo, OSDI '14, §3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policies.common.wait_matrix import WaitMatrix
from policies.model import Resources
from sidecar.node.wait_estimate import Job, Room, starts_s


def wait_matrix(
    room: Room, running: Sequence[Job], waiting: Sequence[Job], sizes: Iterable[Resources], now_s: float
) -> WaitMatrix:
    """Return when a container of each size would start if it arrived now, behind the whole queue."""
    return WaitMatrix(now_s, {size: starts_s(room, running, [*waiting, Job(size, 0.0)])[-1] for size in sizes})
