"""Queries of the store for the REST API. Every method raises StoreUnavailableError."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Select, case, desc, func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstrumentedAttribute, Session

from policies.model import Resources
from quicksilver.common.messages import EventKind
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.store import kills, timeline
from rm_proxy.store.applications import AppLedgers, StoredApplications
from rm_proxy.store.container_history import ContainerHistory
from rm_proxy.store.delay_queries import delays_of
from rm_proxy.store.estimate_errors import Estimates, estimates
from rm_proxy.store.ledger import Ledger
from rm_proxy.store.store import Store
from rm_proxy.store.tables import AppRow, ChangeRow, Completion, DecisionRow, Event, GrantRow
from rm_proxy.views.cluster_models import ApplicationRecord, ListPage
from rm_proxy.views.container_models import ChoiceInfo, CompletionInfo, Decision, EventInfo, Explanation, Score
from rm_proxy.views.delays import NOTHING_WAITS, OpenWaits
from rm_proxy.views.history_models import AppStory, ContainerSpan, Counted, KillRow, NodeCountsInfo, Summary
from rm_proxy.views.service_models import ChangeInfo

_MOST: Final = 200
"""Rows of one kind that a story has at most."""
_REASONS: Final = 20


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Filter of decisions; None: any value. Times are Unix seconds."""

    app_id: str | None = None
    node_id: str | None = None
    container_id: str | None = None
    slot: str | None = None
    alternative: str | None = None
    """"" for the policies in force."""
    since_s: float = 0.0
    until_s: float | None = None
    """Exclusive."""

    def has(self, decision: DecisionRecord) -> bool:
        """Return whether a decision passes the filter."""
        names = ("app_id", "node_id", "container_id", "slot", "alternative")
        equal = all(getattr(self, name) in (None, getattr(decision, name)) for name in names)
        return equal and self.since_s <= decision.at_s and (self.until_s is None or decision.at_s < self.until_s)

    def conditions(
        self, table: type[GrantRow | DecisionRow], at_s: InstrumentedAttribute[float]
    ) -> list[ColumnElement[bool]]:
        """Return what a query of `table` has to say, but for slot and alternative."""
        pairs = ((table.app_id, self.app_id), (table.node_id, self.node_id), (table.container_id, self.container_id))
        conditions: list[ColumnElement[bool]] = [column == value for column, value in pairs if value is not None]
        if self.since_s > 0:
            conditions.append(at_s >= self.since_s)
        if self.until_s is not None:
            conditions.append(at_s < self.until_s)
        return conditions


NOT_FILTERED: Final = DecisionFilter()


class History:
    """Queries; thread-safe, each in a short transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ledger = Ledger(store)
        self.applications = StoredApplications(store)
        self.containers = ContainerHistory(store)
        self.app_ledgers = AppLedgers(self.ledger)

    def decisions(
        self, criteria: DecisionFilter = NOT_FILTERED, *, kind: str | None = None, limit: int, offset: int = 0
    ) -> ListPage[Decision]:
        """Return delivered containers, the newest first."""
        query = select(GrantRow).order_by(GrantRow.granted_s.desc(), GrantRow.container_id.desc())
        query = query.where(*criteria.conditions(GrantRow, GrantRow.granted_s))
        if kind is not None:
            query = query.where(GrantRow.kind == kind)
        with self._session() as session:
            items = [_decision(row) for row in session.scalars(query.limit(limit + 1).offset(offset))]
        return ListPage(items=items[:limit], offset=offset, more=len(items) > limit)

    def choices(self, criteria: DecisionFilter = NOT_FILTERED, *, limit: int, offset: int = 0) -> ListPage[ChoiceInfo]:
        """Return decisions beside those of delivered containers, the newest first."""
        query = select(DecisionRow).order_by(DecisionRow.at_s.desc(), DecisionRow.id.desc())
        query = query.where(*criteria.conditions(DecisionRow, DecisionRow.at_s))
        if criteria.slot is not None:
            query = query.where(DecisionRow.slot == criteria.slot)
        if criteria.alternative is not None:
            query = query.where(DecisionRow.alternative == criteria.alternative)
        with self._session() as session:
            items = [ChoiceInfo.of(row) for row in session.scalars(query.limit(limit + 1).offset(offset))]
        return ListPage(items=items[:limit], offset=offset, more=len(items) > limit)

    def changes(self, *, limit: int, offset: int = 0, starts: bool = True) -> ListPage[ChangeInfo]:
        """Return changes of the settings, the newest first; starts: with what each start of the proxy found."""
        query = select(ChangeRow).order_by(ChangeRow.at_s.desc(), ChangeRow.id.desc())
        if not starts:
            query = query.where(ChangeRow.how != "start")
        with self._session() as session:
            items = [
                ChangeInfo(**{name: getattr(row, name) for name in ChangeInfo.model_fields})
                for row in session.scalars(query.limit(limit + 1).offset(offset))
            ]
        return ListPage(items=items[:limit], offset=offset, more=len(items) > limit)

    def changed_s(self, paths: Sequence[str]) -> float:
        """Return when a setting below one of these paths last changed (Unix seconds); 0 if that is not known."""
        below = or_(*(ChangeRow.path.startswith(path, autoescape=True) for path in paths))
        with self._session() as session:
            return (
                session.scalar(select(func.max(ChangeRow.at_s)).where(ChangeRow.ok, ChangeRow.how != "start", below))
                or 0.0
            )

    def explanation(self, container_id: str) -> Explanation:
        """Return the history of a container; all fields are empty when it is not known."""
        events = select(Event).where(Event.container_id == container_id).order_by(Event.at_s, Event.seq)
        choices = (
            select(DecisionRow)
            .where(DecisionRow.container_id == container_id)
            .order_by(DecisionRow.at_s, DecisionRow.id)
        )
        later = select(GrantRow.container_id).where(GrantRow.follows == container_id, GrantRow.follows != "")
        later = later.order_by(GrantRow.granted_s, GrantRow.container_id)
        with self._session() as session:
            grant = session.get(GrantRow, container_id)
            completion = session.get(Completion, container_id)
            app = session.get(AppRow, grant.app_id if grant else completion.app_id if completion else "")
            return Explanation(
                container_id=container_id,
                decision=_decision(grant) if grant else None,
                application=_application(app) if app else None,
                events=[_event(row) for row in session.scalars(events.limit(_MOST))],
                choices=[ChoiceInfo.of(row) for row in session.scalars(choices.limit(_MOST))],
                completion=_completion(completion) if completion else None,
                followed_by=list(session.scalars(later.limit(_MOST))),
            )

    def story(self, app_id: str, waiting: OpenWaits = NOTHING_WAITS) -> AppStory:
        """Return the history of an application's containers; all fields are empty when it is not known.

        waiting: containers of it that still wait.
        """
        summary = self.summary(app_id=app_id, waiting=waiting)
        retried = select(func.count()).where(GrantRow.app_id == app_id, GrantRow.follows != "")
        with self._session() as session:
            return AppStory(
                app_id=app_id,
                application=_application(app) if (app := session.get(AppRow, app_id)) else None,
                routes=_routes(session, app_id),
                choices=_counted(session, _choices_of(app_id)),
                events=_counted(session, _events_of(app_id)),
                allocation_g=summary.allocation_g,
                allocation_q=summary.allocation_q,
                queueing=summary.queueing,
                ledger=self.ledger.of_application(app_id),
                retried=session.scalar(retried) or 0,
            )

    def application(self, app_id: str) -> ApplicationRecord | None:
        """Return an application as it was recorded last."""
        with self._session() as session:
            row = session.get(AppRow, app_id)
            return _application(row) if row else None

    def summary(
        self, *, since_s: float = 0.0, app_id: str | None = None, waiting: OpenWaits = NOTHING_WAITS
    ) -> Summary:
        """Return counts and delays of containers delivered since `since_s` (Unix seconds), of `app_id` or of all.

        waiting: containers that still wait; delays count their waits so far.
        """
        with self._session() as session:
            nodes = self._nodes(session, since_s, app_id)
            return Summary(
                since_s=since_s,
                app_id=app_id,
                guaranteed=sum(node.guaranteed for node in nodes),
                queueable=sum(node.queueable for node in nodes),
                nodes=nodes,
                allocation_g=delays_of(session, _allocation("G", since_s, app_id), waiting.g),
                allocation_q=delays_of(session, _allocation("Q", since_s, app_id), waiting.q),
                queueing=delays_of(session, _queueing(since_s, app_id), waiting.at_nodes),
                events=self._events(session, since_s, app_id),
            )

    @staticmethod
    def _nodes(session: Session, since_s: float, app_id: str | None) -> list[NodeCountsInfo]:
        query = select(GrantRow.node_id, GrantRow.kind, func.count()).where(GrantRow.granted_s >= since_s)
        if app_id is not None:
            query = query.where(GrantRow.app_id == app_id)
        counts: dict[str, dict[str, int]] = {}
        for node_id, kind, count in session.execute(query.group_by(GrantRow.node_id, GrantRow.kind)):
            counts.setdefault(node_id, {})[kind] = count
        return [
            NodeCountsInfo(node_id=n, guaranteed=c.get("G", 0), queueable=c.get("Q", 0))
            for n, c in sorted(counts.items())
        ]

    @staticmethod
    def _events(session: Session, since_s: float, app_id: str | None) -> dict[str, int]:
        query = select(Event.kind, func.count()).where(Event.at_s >= since_s).group_by(Event.kind)
        if app_id is not None:
            query = query.join(GrantRow, GrantRow.container_id == Event.container_id).where(GrantRow.app_id == app_id)
        return {row[0]: row[1] for row in session.execute(query.order_by(Event.kind))}

    def estimates(self, *, since_s: float, bucket_s: float, app_id: str | None = None) -> Estimates:
        """Return the errors of the estimates since `since_s` (Unix seconds), by spans of `bucket_s` seconds."""
        return estimates(self._store, since_s=since_s, bucket_s=bucket_s, app_id=app_id)

    def kills(self, *, since_s: float, until_s: float | None = None) -> list[KillRow]:
        """Return kills by cause, queue and kind, the greatest loss first."""
        return kills.kills(self._store, since_s=since_s, until_s=until_s)

    def spans(self, node_id: str, since_s: float) -> tuple[list[ContainerSpan], bool]:
        """Return the containers with an event at a node since a time, and whether there were more than fit."""
        return timeline.spans(self._store, node_id, since_s)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            with Session(self._store.engine) as session:
                yield session
        except SQLAlchemyError as error:
            raise self._store.unavailable(error) from error


def _allocation(kind: str, since_s: float, app_id: str | None) -> Select[float]:
    query = select((GrantRow.granted_s - GrantRow.asked_s).label("value"))
    query = query.where(GrantRow.kind == kind, GrantRow.granted_s >= since_s)
    return query if app_id is None else query.where(GrantRow.app_id == app_id)


def _queueing(since_s: float, app_id: str | None) -> Select[float]:
    """Return the waits of queueable containers; the sidecar reports starts of guaranteed ones too, with no wait."""
    query = select(Event.waited_s.label("value")).join(GrantRow, GrantRow.container_id == Event.container_id)
    query = query.where(GrantRow.kind == "Q", Event.kind == EventKind.STARTED.value, Event.at_s >= since_s)
    return query if app_id is None else query.where(GrantRow.app_id == app_id)


def _routes(session: Session, app_id: str) -> list[Counted]:
    """Return the delivered containers by kind and reason; further ones than _REASONS as one line for each kind."""
    query = select(GrantRow.kind, GrantRow.route_reason, func.count().label("count")).where(GrantRow.app_id == app_id)
    query = query.group_by(GrantRow.kind, GrantRow.route_reason).order_by(
        desc("count"), GrantRow.kind, GrantRow.route_reason
    )
    counts = _counted(session, query.limit(_REASONS))
    kinds = (
        select(GrantRow.kind, func.count())
        .where(GrantRow.app_id == app_id)
        .group_by(GrantRow.kind)
        .order_by(GrantRow.kind)
    )
    for kind, count in session.execute(kinds):
        rest = count - sum(route.count for route in counts if route.what == kind)
        if rest:
            counts.append(Counted(what=kind, why="other reasons", count=rest))
    return counts


def _choices_of(app_id: str) -> Select[str, str, int]:
    """Return the application's other decisions by slot and what was chosen, those of alternatives left out."""
    query = select(DecisionRow.slot, DecisionRow.chosen, func.sum(DecisionRow.weight).label("count"))
    query = query.where(DecisionRow.app_id == app_id, DecisionRow.alternative == "").group_by(
        DecisionRow.slot, DecisionRow.chosen
    )
    return query.order_by(desc("count"), DecisionRow.slot, DecisionRow.chosen).limit(_REASONS)


def _events_of(app_id: str) -> Select[str, str, int]:
    """Return what sidecars reported of the application's containers; of ends, the cause is a container: left out."""
    cause = case((Event.kind == EventKind.ENDED.value, ""), else_=Event.cause)
    query = select(Event.kind, cause.label("why"), func.count().label("count"))
    query = query.join(GrantRow, GrantRow.container_id == Event.container_id).where(GrantRow.app_id == app_id)
    return query.group_by(Event.kind, "why").order_by(Event.kind, "why").limit(_MOST)


def _counted(session: Session, query: Select[str, str, int]) -> list[Counted]:
    return [Counted(what=name, why=why, count=count) for name, why, count in session.execute(query)]


def _decision(row: GrantRow) -> Decision:
    same = {name: getattr(row, name) for name in Decision.model_fields if hasattr(row, name)}
    scores = [Score(node=node, score=score) for node, score in row.scores]
    resources = Resources(row.memory_mb, row.vcores)
    return Decision(**(same | {"scores": scores, "resources": resources, "delay_s": row.granted_s - row.asked_s}))


def _event(row: Event) -> EventInfo:
    return EventInfo(**{name: getattr(row, name) for name in EventInfo.model_fields})


def _completion(row: Completion) -> CompletionInfo:
    return CompletionInfo(**{name: getattr(row, name) for name in CompletionInfo.model_fields})


def _application(row: AppRow) -> ApplicationRecord:
    return ApplicationRecord(**{name: getattr(row, name) for name in ApplicationRecord.model_fields})
