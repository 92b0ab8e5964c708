"""Errors of the estimates over time: expected against measured run times of delivered containers."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel
from sqlalchemy import BigInteger, ColumnElement, Select, case, cast, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from quicksilver.common.messages import EventKind
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Event, GrantRow

MAX_BUCKETS: Final = 1_000
_LEAST_S: Final = 0.01
"""Shorter run times count as this long, so that an error is finite."""


class EstimateErrors(BaseModel):
    """Errors of the containers that ended in one span of time; an error is |expected - ran| / ran."""

    from_s: float
    """Unix time of its begin."""
    count: int
    mean_error: float
    median_error: float
    """Nearest rank, as `p95_error`."""
    p95_error: float
    bias: float
    """(sum of expected - sum of ran) / sum of ran: below 0 where tasks took longer than expected."""
    mean_ran_s: float


class Estimates(BaseModel):
    """Errors by time, spans without ended containers left out."""

    since_s: float
    bucket_s: float
    app_id: str | None
    buckets: list[EstimateErrors]
    all: EstimateErrors | None
    """Of the whole time; null when nothing ended."""


def estimates(store: Store, *, since_s: float, bucket_s: float, app_id: str | None = None) -> Estimates:
    """Return the errors of the estimates since `since_s` (Unix time), by spans of `bucket_s` seconds.

    The newest MAX_BUCKETS spans are answered at most. The database sorts, so that memory stays bounded.
    Raises StoreUnavailableError.
    """
    truncated = store.engine.dialect.name != "postgresql"
    spans = _grouped(_errors(since_s, bucket_s, app_id, truncated)).limit(MAX_BUCKETS)
    whole = _grouped(_errors(since_s, None, app_id, truncated))
    try:
        with Session(store.engine) as session:
            buckets = [_errors_of(row, since_s, bucket_s) for row in session.execute(spans)]
            in_all = [_errors_of(row, since_s, 0.0) for row in session.execute(whole)]
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error
    buckets.reverse()
    return Estimates(
        since_s=since_s, bucket_s=bucket_s, app_id=app_id, buckets=buckets, all=in_all[0] if in_all else None
    )


def _errors(since_s: float, bucket_s: float | None, app_id: str | None, truncated: bool) -> Select[Any]:
    """Return the span, the expectation, the run time and the error of each ended container.

    truncated: whether the database cuts fractions off when it casts to whole numbers, where it may have no floor().
    """
    span: ColumnElement[Any] = cast(0, BigInteger)
    if bucket_s is not None:
        exact = (Event.at_s - since_s) / bucket_s
        span = cast(exact if truncated else func.floor(exact), BigInteger)
    shrunk = (Event.times_shrunk > 0) & Event.attained_s.is_not(None) & (Event.attained_s < Event.ran_s)
    worked_s = case((shrunk, Event.attained_s), else_=Event.ran_s)
    ran_s = case((worked_s < _LEAST_S, _LEAST_S), else_=worked_s)
    query = (
        select(
            span.label("span"),
            GrantRow.expected_s.label("expected_s"),
            ran_s.label("ran_s"),
            (func.abs(GrantRow.expected_s - ran_s) / ran_s).label("error"),
        )
        .join(GrantRow, GrantRow.container_id == Event.container_id)
        .where(Event.kind == EventKind.ENDED.value, Event.ran_s.is_not(None), Event.at_s >= since_s)
    )
    return query if app_id is None else query.where(GrantRow.app_id == app_id)


def _grouped(errors: Select[Any]) -> Select[Any]:
    """Return one row for each span, the newest first."""
    subquery = errors.subquery()
    ranked = select(
        subquery,
        func.row_number().over(partition_by=subquery.c.span, order_by=subquery.c.error).label("place"),
        func.count().over(partition_by=subquery.c.span).label("count"),
    ).subquery()

    def at(percent: int) -> ColumnElement[Any]:
        """Return the error at the nearest rank: the first of the ordered with place * 100 >= count * percent."""
        reached = ranked.c.place * 100 >= ranked.c.count * percent
        return func.min(case((reached, ranked.c.error)))

    return (
        select(
            ranked.c.span,
            func.max(ranked.c.count),
            func.avg(ranked.c.error),
            at(50),
            at(95),
            func.sum(ranked.c.expected_s),
            func.sum(ranked.c.ran_s),
        )
        .group_by(ranked.c.span)
        .order_by(ranked.c.span.desc())
    )


def _errors_of(row: Any, since_s: float, bucket_s: float) -> EstimateErrors:
    span, count, mean, median, p95, expected_s, ran_s = row
    return EstimateErrors(
        from_s=since_s + span * bucket_s,
        count=count,
        mean_error=mean,
        median_error=median,
        p95_error=p95,
        bias=(expected_s - ran_s) / ran_s,
        mean_ran_s=ran_s / count,
    )
