"""Percentiles of a column of the store together with waits that are not over; the database sorts."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from sqlalchemy import Select, Subquery, func, select
from sqlalchemy.orm import Session

from rm_proxy.views.delays import Still, rank
from rm_proxy.views.history_models import DelayFigures


def delays_of(session: Session, values: Select[float], waiting: Still = ()) -> DelayFigures:
    """Return nearest-rank percentiles; memory does not grow with the rows.

    values: one column, `value`, of seconds; waiting: containers that still wait, which count with their waits so far.
    """
    column = values.subquery()
    waits = sorted(waiting)
    upto = list(accumulate(times for _, times in waits))
    still = upto[-1] if upto else 0
    count = (session.scalar(select(func.count()).select_from(column)) or 0) + still
    if not count:
        return DelayFigures(count=0)
    p50_s, p95_s, max_s = (_ranked(session, column, waits, upto, rank(count, percent)) for percent in (50, 95, 100))
    return DelayFigures(count=count, waiting=still, p50_s=p50_s, p95_s=p95_s, max_s=max_s)


def _ranked(session: Session, column: Subquery, waits: Still, upto: list[int], place: int) -> float | None:
    """Return the value of a rank among the column and the waits; upto: how many waits there are up to each."""

    def last_rank(at: int) -> int:
        """Return the rank of the last container of a wait: those that waited less, or as long, go before."""
        less = select(func.count()).select_from(column).where(column.c.value < waits[at][0])
        return (session.scalar(less) or 0) + upto[at]

    at = bisect_left(range(len(waits)), place, key=last_rank)
    if at < len(waits) and place > last_rank(at) - waits[at][1]:
        return waits[at][0]
    before = upto[at - 1] if at else 0
    ordered = select(column.c.value).order_by(column.c.value)
    return session.scalar(ordered.limit(1).offset(place - 1 - before))
