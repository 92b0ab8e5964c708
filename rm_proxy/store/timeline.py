"""What containers did at one node lately, from the stored events. Raises StoreUnavailableError."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from quicksilver.common.messages import EventKind
from rm_proxy.domain.ids import app_of_container
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Event, GrantRow
from rm_proxy.views.history_models import ContainerSpan

MAX_EVENTS: Final = 4000
_OVER: Final = frozenset(
    kind.value
    for kind in (EventKind.ENDED, EventKind.KILLED, EventKind.SHED, EventKind.STOPPED, EventKind.FAILED, EventKind.LOST)
)


def spans(store: Store, node_id: str, since_s: float) -> tuple[list[ContainerSpan], bool]:
    """Return the containers with an event at a node since a time, and whether there were more than fit.

    Of very many events the newest count.
    """
    query = select(Event, GrantRow.app_id, GrantRow.kind).outerjoin(
        GrantRow, GrantRow.container_id == Event.container_id
    )
    query = query.where(Event.node_id == node_id, Event.at_s >= since_s)
    query = query.order_by(Event.at_s.desc(), Event.seq.desc()).limit(MAX_EVENTS + 1)
    try:
        with Session(store.engine) as session:
            rows = [
                (event, app_id or app_of_container(event.container_id), kind or "G")
                for event, app_id, kind in session.execute(query)
            ]
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error
    by_id: dict[str, ContainerSpan] = {}
    for event, app_id, kind in reversed(rows[:MAX_EVENTS]):
        span = by_id.setdefault(
            event.container_id, ContainerSpan(container_id=event.container_id, app_id=app_id, kind=kind)
        )
        _tell(span, event)
    return list(by_id.values()), len(rows) > MAX_EVENTS


def _tell(span: ContainerSpan, event: Any) -> None:
    """Put an event into a container's span; what was before the time is known by how long it took."""
    if event.kind == EventKind.HELD.value:
        span.held_s = event.at_s
    elif event.kind == EventKind.STARTED.value:
        span.started_s = event.at_s
        if span.held_s is None and event.waited_s > 0:
            span.held_s = event.at_s - event.waited_s
    elif event.kind in _OVER:
        span.ended_s, span.end, span.cause, span.reason = event.at_s, event.kind, event.cause, event.reason
        span.times_shrunk = event.times_shrunk
        if span.started_s is None and event.ran_s is not None:
            span.started_s = event.at_s - event.ran_s
