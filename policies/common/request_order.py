"""The order in which whole applications are served: FIFO, SJF, SRPT and HRRN by three sizes (Zoe, §4.4, §4.6)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

Key = tuple[float, ...]
"""(-priority, ..., arrival): the lowest goes first."""


class RequestOrder(StrEnum):
    """Which application is served first, among those of one priority."""

    FIFO = "fifo"
    SJF = "sjf"
    """The smallest first."""
    SRPT = "srpt"
    """The one with the smallest part of its size left first."""
    HRRN = "hrrn"
    """The highest ratio (wait + size) / size first, so that nobody starves."""


class RequestSize(StrEnum):
    """The size of an application (Table 2)."""

    RUNTIME = "1d"
    """Expected runtime, in seconds."""
    COMPONENTS = "2d"
    """Runtime x containers, in container-seconds."""
    VOLUME = "3d"
    """Runtime x the sum of cores x memory of each container, in core-GB-seconds."""


def size_of(size: RequestSize, runtime_s: float, parts: Iterable[tuple[int, float, float]]) -> float:
    """Return the size of an application; parts: count, cores and memory (GB) of its containers of one kind each."""
    match size:
        case RequestSize.RUNTIME:
            return runtime_s
        case RequestSize.COMPONENTS:
            return runtime_s * sum(count for count, _, _ in parts)
        case RequestSize.VOLUME:
            return runtime_s * sum(count * cores * memory_gb for count, cores, memory_gb in parts)


def rank(
    order: RequestOrder, priority: int, arrived_s: float, size: float, now_s: float, left_ratio: float = 1.0
) -> Key:
    """Return the sort key of an application at `now_s`, of whose work the share `left_ratio` is still to do.

    While nothing runs, SRPT is SJF. HRRN's ratio grows while an application waits.
    """
    match order:
        case RequestOrder.FIFO:
            return (-priority, arrived_s)
        case RequestOrder.SJF:
            return (-priority, size, arrived_s)
        case RequestOrder.SRPT:
            return (-priority, size * left_ratio, arrived_s)
        case RequestOrder.HRRN:
            return (-priority, -1 - max(0.0, now_s - arrived_s) / size, arrived_s)
