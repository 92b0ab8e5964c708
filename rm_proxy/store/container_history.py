"""Containers over time: events, spans and waits. Raises StoreUnavailableError."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from policies.model import Resources
from quicksilver.common.messages import EventKind
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Completion, Event, GrantRow
from rm_proxy.views.cluster_models import ListPage
from rm_proxy.views.delays import NOTHING_WAITS, OpenWaits, Still, delays
from rm_proxy.views.history_models import DelayFigures
from rm_proxy.views.timeline_models import AppContainer, ContainerEventInfo, WaitBucket, WaitHistogram

MAX_WAITS: Final = 20_000
"""Containers of an application whose waits are counted, the newest."""
MAX_BUCKETS: Final = 120
_BUCKETS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800)
_MOVES: Final = ("steal", "correct")
_ENDS: Final = tuple(kind.value for kind in EventKind if kind not in (EventKind.HELD, EventKind.STARTED))


class ContainerHistory:
    """Queries; thread-safe, each in a short transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def events(
        self,
        *,
        app_id: str | None = None,
        node_id: str | None = None,
        container_id: str | None = None,
        kinds: Collection[str] = (),
        since_s: float = 0.0,
        until_s: float | None = None,
        limit: int,
        offset: int = 0,
    ) -> ListPage[ContainerEventInfo]:
        """Return events that sidecars reported, the newest first; kinds: of `EventKind`, none for all."""
        query = select(Event, GrantRow.app_id, GrantRow.kind).outerjoin(
            GrantRow, GrantRow.container_id == Event.container_id
        )
        pairs = ((GrantRow.app_id, app_id), (Event.node_id, node_id), (Event.container_id, container_id))
        query = query.where(*(column == value for column, value in pairs if value is not None))
        if kinds:
            query = query.where(Event.kind.in_(kinds))
        if since_s > 0:
            query = query.where(Event.at_s >= since_s)
        if until_s is not None:
            query = query.where(Event.at_s < until_s)
        query = query.order_by(Event.at_s.desc(), Event.node_id, Event.boot, Event.seq.desc())
        with self._session() as session:
            rows = session.execute(query.limit(limit + 1).offset(offset)).all()
            items = [_event(event, app or "", kind or "") for event, app, kind in rows]
        return ListPage(items=items[:limit], offset=offset, more=len(items) > limit)

    def spans(self, app_id: str, *, kind: str | None = None, limit: int, offset: int = 0) -> ListPage[AppContainer]:
        """Return the delivered containers of an application, the newest first."""
        query = select(GrantRow).where(GrantRow.app_id == app_id)
        if kind is not None:
            query = query.where(GrantRow.kind == kind)
        query = query.order_by(GrantRow.granted_s.desc(), GrantRow.container_id.desc()).limit(limit + 1).offset(offset)
        with self._session() as session:
            grants = session.scalars(query).all()
            spans = {grant.container_id: _span(grant) for grant in grants[:limit]}
            events = select(Event).where(Event.container_id.in_(spans)).order_by(Event.at_s, Event.seq)
            for event in session.scalars(events):
                _add(spans[event.container_id], event)
            ends = select(Completion.container_id, Completion.exit_status, Completion.at_s)
            for container_id, status, at_s in session.execute(ends.where(Completion.container_id.in_(spans))):
                span = spans[container_id]
                span.exit_status = status
                if not span.end:
                    span.end, span.ended_s = "ended", at_s
        return ListPage(items=list(spans.values()), offset=offset, more=len(grants) > limit)

    def waits(
        self,
        app_id: str,
        bucket_s: float | None = None,
        *,
        waiting: OpenWaits = NOTHING_WAITS,
        now_s: float = 0.0,
    ) -> WaitHistogram:
        """Return the waits of an application's containers; bucket_s: length of a span, None for a fitting one.

        waiting: containers that still wait; their waits so far count in the span of `now_s`.
        """
        delivered = select(GrantRow.granted_s, GrantRow.granted_s - GrantRow.asked_s, GrantRow.kind).where(
            GrantRow.app_id == app_id
        )
        delivered = delivered.order_by(GrantRow.granted_s.desc())
        started = select(Event.at_s, Event.waited_s).join(GrantRow, GrantRow.container_id == Event.container_id)
        started = started.where(GrantRow.app_id == app_id, GrantRow.kind == "Q", Event.kind == EventKind.STARTED.value)
        started = started.order_by(Event.at_s.desc())
        with self._session() as session:
            allocations, starts = _newest(session, delivered), _newest(session, started)
        points = [(at_s, f"allocation_{kind.lower()}", waited_s) for at_s, waited_s, kind in allocations[:MAX_WAITS]]
        points += [(at_s, "queueing", waited_s) for at_s, waited_s in starts[:MAX_WAITS]]
        times = [at_s for at_s, _, _ in points] + [now_s] * (waiting != NOTHING_WAITS)
        size_s = bucket_s or fitting_bucket_s(max(times) - min(times) if times else 0.0)
        last_s = now_s // size_s * size_s
        by_bucket: dict[float, list[tuple[float, str, float]]] = {last_s: []} if waiting != NOTHING_WAITS else {}
        for point in points:
            by_bucket.setdefault(point[0] // size_s * size_s, []).append(point)
        return WaitHistogram(
            app_id=app_id,
            bucket_s=size_s,
            all=_bucket(min(times, default=0.0), points, waiting),
            buckets=[
                _bucket(from_s, by_bucket[from_s], waiting if from_s == last_s else NOTHING_WAITS)
                for from_s in sorted(by_bucket)[-10 * MAX_BUCKETS :]
            ],
            complete=len(allocations) <= MAX_WAITS and len(starts) <= MAX_WAITS,
        )

    @contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            with Session(self._store.engine) as session:
                yield session
        except SQLAlchemyError as error:
            raise self._store.unavailable(error) from error


def fitting_bucket_s(whole_s: float) -> float:
    """Return the length of a span of which at most MAX_BUCKETS fill a time."""
    return next((float(span_s) for span_s in _BUCKETS_S if whole_s / span_s <= MAX_BUCKETS), float(_BUCKETS_S[-1]))


def _newest(session: Session, query: Any) -> Sequence[Any]:
    return session.execute(query.limit(MAX_WAITS + 1)).all()


def _bucket(from_s: float, points: Collection[tuple[float, str, float]], waiting: OpenWaits) -> WaitBucket:
    def of(name: str, still: Still) -> DelayFigures:
        return delays((waited_s for _, delay, waited_s in points if delay == name), still)

    return WaitBucket(
        from_s=from_s,
        allocation_g=of("allocation_g", waiting.g),
        allocation_q=of("allocation_q", waiting.q),
        queueing=of("queueing", waiting.at_nodes),
    )


def _event(event: Event, app_id: str, kind: str) -> ContainerEventInfo:
    own = ("app_id", "container_kind")
    same = {name: getattr(event, name) for name in ContainerEventInfo.model_fields if name not in own}
    return ContainerEventInfo(**same, app_id=app_id, container_kind=kind)


def _span(grant: GrantRow) -> AppContainer:
    same = {name: getattr(grant, name) for name in AppContainer.model_fields if hasattr(grant, name)}
    return AppContainer(**same, resources=Resources(grant.memory_mb, grant.vcores))


def _add(span: AppContainer, event: Event) -> None:
    """Add an event, which is none before an earlier one, to a container's times."""
    if event.kind == EventKind.STARTED.value:
        span.started_s, span.waited_s = event.at_s, event.waited_s
    elif event.kind in _ENDS:
        moved = event.kind == EventKind.SHED.value and event.cause in _MOVES
        span.end = "moved" if moved else event.kind  # type: ignore[assignment]
        span.ended_s, span.reason, span.ran_s = event.at_s, event.reason, event.ran_s
        span.cause = "" if event.kind == EventKind.ENDED.value else event.cause  # of an end it is a container
        span.attained_s, span.times_shrunk = event.attained_s, event.times_shrunk
