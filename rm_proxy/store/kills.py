"""Containers that ran and were killed, by cause; they are the kills of the ledger. Raises StoreUnavailableError."""

from __future__ import annotations

from typing import Final

from sqlalchemy import and_, case, desc, func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from quicksilver.common.messages import EventKind
from rm_proxy.domain import exit_codes
from rm_proxy.store.store import Store
from rm_proxy.store.tables import AppRow, Completion, Event, GrantRow
from rm_proxy.views.history_models import KillRow

_MOST: Final = 1000


def kills(store: Store, *, since_s: float, until_s: float | None) -> list[KillRow]:
    """Return sums by cause, queue and kind, the greatest loss first; times are Unix seconds, `until_s` exclusive."""
    status = func.coalesce(Completion.original_exit_status, Completion.exit_status, 0)
    ended = Event.kind == EventKind.ENDED.value
    cause = case(
        (Event.kind == EventKind.KILLED.value, Event.cause),
        (status == exit_codes.PREEMPTED, "resourcemanager"),
        else_="nodemanager",
    ).label("killed_by")
    queue = func.coalesce(AppRow.queue, "").label("of_queue")
    work_s = func.coalesce(Event.attained_s, Event.ran_s, 0.0)
    count, lost_s = func.count().label("kills"), func.sum(work_s).label("lost_s")
    by_yarn = and_(ended, status.in_((exit_codes.PREEMPTED, exit_codes.KILLED_BY_CONTAINER_SCHEDULER)))
    query = select(cause, queue, GrantRow.kind, count, lost_s).select_from(Event)
    query = query.join(GrantRow, GrantRow.container_id == Event.container_id)
    query = query.outerjoin(Completion, Completion.container_id == Event.container_id)
    query = query.outerjoin(AppRow, AppRow.id == GrantRow.app_id)
    query = query.where(Event.at_s >= since_s, or_(Event.kind == EventKind.KILLED.value, by_yarn))
    if until_s is not None:
        query = query.where(Event.at_s < until_s)
    query = query.group_by("killed_by", "of_queue", GrantRow.kind)
    query = query.order_by(desc("lost_s"), desc("kills"), "killed_by", "of_queue", GrantRow.kind).limit(_MOST)
    try:
        with Session(store.engine) as session:
            rows = list(session.execute(query))
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error
    return [
        KillRow(cause=row[0] or "unknown", queue=row[1], kind=row[2], count=row[3], lost_s=round(row[4], 3))
        for row in rows
    ]
