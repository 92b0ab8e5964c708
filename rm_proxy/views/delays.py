"""Percentiles of waits, of which some are not over: a container that still waits counts with its wait so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rm_proxy.views.history_models import DelayFigures

Still = Sequence[tuple[float, int]]
"""Seconds, and how many containers wait so long."""


@dataclass(frozen=True, slots=True)
class OpenWaits:
    """Containers that wait now."""

    g: Still = ()
    """Pending guaranteed ones: requested and not allocated."""
    q: Still = ()
    at_nodes: Still = ()
    """Queueable ones that wait at their nodes."""


NOTHING_WAITS: Final = OpenWaits()


def rank(count: int, percent: int) -> int:
    """Return the nearest rank of a percentile among `count` values, from 1."""
    return max(1, -(-count * percent // 100))


def delays(over: Iterable[float], waiting: Still = ()) -> DelayFigures:
    """Return nearest-rank percentiles of seconds; waiting: what still waits, which counts with its waits so far."""
    ordered = sorted([(value, 1) for value in over] + list(waiting))
    count = sum(times for _, times in ordered)
    if not count:
        return DelayFigures(count=0)
    p50_s, p95_s = (_at(ordered, rank(count, percent)) for percent in (50, 95))
    still = sum(times for _, times in waiting)
    return DelayFigures(count=count, waiting=still, p50_s=p50_s, p95_s=p95_s, max_s=ordered[-1][0])


def _at(ordered: Still, place: int) -> float:
    """Return the value of a rank."""
    passed = 0
    for value, times in ordered:
        passed += times
        if passed >= place:
            return value
    raise IndexError(place)
