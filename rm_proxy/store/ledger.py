"""The ledger: what kills lost, what shrinking saved, how long containers queued; by application, queue, user or day.

It is derived from the store's rows when it is asked for. Raises StoreUnavailableError as `rm_proxy.store.queries` does.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import BigInteger, Double

from quicksilver.common.messages import EventKind
from rm_proxy.domain import exit_codes
from rm_proxy.store.store import Store
from rm_proxy.store.tables import AppRow, Completion, DecisionRow, Event, GrantRow
from rm_proxy.views.history_models import LedgerRow

By = Literal["app", "queue", "user", "day"]
_DAY_S: Final = 86400
_MOVES: Final = ("steal", "correct")
_NEWEST_FIRST: Final = ("app", "day")
_BY_YARN: Final = (exit_codes.PREEMPTED, exit_codes.KILLED_BY_CONTAINER_SCHEDULER)
_SUMS: Final = tuple(name for name in LedgerRow.model_fields if name not in ("key", "name", "queue", "user"))
_WHOLE: Final = frozenset(name for name in _SUMS if not name.endswith("_s"))
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters that make a spreadsheet take a text for a formula."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Scope of a ledger query; times are Unix seconds."""

    by: By
    since_s: float = 0.0
    until_s: float | None = None
    """Exclusive; None: until now."""
    zone_min: int = 0
    """Offset of midnight, with which days begin, in minutes east of UTC."""


class Ledger:
    """Queries; thread-safe, each in a short transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self, scope: Scope, *, limit: int, offset: int = 0, after: str | None = None) -> list[LedgerRow]:
        """Return rows in order: applications and days the newest first, queues and users by name.

        after: only rows behind the one of this key.
        """
        rows = self._run(self._statement(scope, after).limit(limit).offset(offset))
        return [_row(record, scope.by) for record in rows]

    def of_application(self, app_id: str) -> LedgerRow | None:
        """Return the row of one application; None when nothing is known of it."""
        return self.of_applications([app_id]).get(app_id)

    def of_applications(self, app_ids: Collection[str]) -> dict[str, LedgerRow]:
        """Return the rows of applications by id; those of which nothing is known are left out."""
        rows = self._run(self._statement(Scope("app"), None, app_ids)) if app_ids else []
        return {row.key: row for row in (_row(record, "app") for record in rows)}

    def pages(self, scope: Scope, size: int = 500) -> Iterator[list[LedgerRow]]:
        """Yield all rows, `size` at a time; the first page, which may be empty, is there at once."""
        page = self.rows(scope, limit=size)
        yield page
        while len(page) == size:
            page = self.rows(scope, limit=size, after=page[-1].key)
            yield page

    def _run(self, statement: Select[Any]) -> list[dict[str, Any]]:
        try:
            with Session(self._store.engine) as session:
                return [dict(row._mapping) for row in session.execute(statement)]
        except SQLAlchemyError as error:
            raise self._store.unavailable(error) from error

    def _statement(self, scope: Scope, after: str | None, app_ids: Collection[str] | None = None) -> Select[Any]:
        every = _parts(scope, self._day, app_ids).subquery()
        key = every.c.key
        sums = [func.sum(every.c[name]).label(name) for name in _SUMS]
        totals = select(key, *sums).group_by(key)
        if after is not None:
            edge = _day_number(after) if scope.by == "day" else after
            totals = totals.where(key < edge if scope.by in _NEWEST_FIRST else key > edge)
        whole = totals.subquery()
        order = whole.c.key.desc() if scope.by in _NEWEST_FIRST else whole.c.key
        if scope.by != "app":
            return select(whole).order_by(order)
        named = select(whole, AppRow.name, AppRow.queue, AppRow.user)
        return named.outerjoin(AppRow, AppRow.id == whole.c.key).order_by(order)

    def _day(self, at_s: InstrumentedAttribute[float], zone_min: int) -> ColumnElement[Any]:
        """Return the number of the day; SQLite's cast cuts off, PostgreSQL's rounds."""
        days = (at_s + 60.0 * zone_min) / _DAY_S
        return cast(days if self._store.engine.dialect.name == "sqlite" else func.floor(days), BigInteger)


_Day = Callable[[InstrumentedAttribute[float], int], ColumnElement[Any]]


def _parts(scope: Scope, day: _Day, app_ids: Collection[str] | None) -> CompoundSelect[Any]:
    """Return the sums of each table, to be added up; only of some applications where `app_ids` is given."""
    kind = GrantRow.kind
    grants = {"containers_g": _count(kind == "G"), "containers_q": _count(kind == "Q")}
    events = _event_sums()
    promoted = and_(DecisionRow.slot == "promote", DecisionRow.chosen == "promoted", DecisionRow.alternative == "")
    of_event = select(*_columns(scope, day, Event.at_s, GrantRow.app_id, events)).select_from(Event)
    of_event = of_event.join(GrantRow, GrantRow.container_id == Event.container_id)
    of_event = of_event.outerjoin(Completion, Completion.container_id == Event.container_id)
    of_grant = select(*_columns(scope, day, GrantRow.granted_s, GrantRow.app_id, grants)).select_from(GrantRow)
    promotions = {"promotions": func.sum(DecisionRow.weight)}
    of_choice = select(*_columns(scope, day, DecisionRow.at_s, DecisionRow.app_id, promotions)).select_from(DecisionRow)
    if app_ids is not None:
        of_event, of_grant = of_event.where(GrantRow.app_id.in_(app_ids)), of_grant.where(GrantRow.app_id.in_(app_ids))
        of_choice = of_choice.where(DecisionRow.app_id.in_(app_ids))
    return union_all(
        _within(scope, of_grant, GrantRow.granted_s, GrantRow.app_id),
        _within(scope, of_event.where(Event.kind.in_(_KINDS)), Event.at_s, GrantRow.app_id),
        _within(scope, of_choice.where(promoted), DecisionRow.at_s, DecisionRow.app_id),
    )


_KINDS: Final = tuple(kind.value for kind in (EventKind.STARTED, EventKind.ENDED, EventKind.KILLED, EventKind.SHED))


def _event_sums() -> dict[str, ColumnElement[Any]]:
    """Return the sums over container events, see `LedgerRow`."""
    is_kind = {kind: Event.kind == kind.value for kind in EventKind}
    ended = is_kind[EventKind.ENDED]
    status = func.coalesce(Completion.original_exit_status, Completion.exit_status)
    by_yarn = and_(ended, func.coalesce(status, 0).in_(_BY_YARN))
    lost = or_(is_kind[EventKind.KILLED], by_yarn)
    queued = and_(is_kind[EventKind.STARTED], GrantRow.kind == "Q")
    moved = and_(is_kind[EventKind.SHED], Event.cause.in_(_MOVES))
    work_s = func.coalesce(Event.attained_s, Event.ran_s, 0.0)
    return {
        "started_q": _count(queued),
        "queueing_s": _sum(queued, Event.waited_s),
        "work_s": _sum(and_(ended, ~by_yarn), work_s),
        "kills": _count(lost),
        "lost_s": _sum(lost, work_s),
        "shrinks": _sum(or_(ended, is_kind[EventKind.KILLED]), Event.times_shrunk),
        "saved_s": _sum(and_(ended, ~by_yarn), Event.saved_s),
        "sheds": _count(and_(is_kind[EventKind.SHED], ~moved)),
        "moves": _count(moved),
    }


def _columns(
    scope: Scope,
    day: _Day,
    at_s: InstrumentedAttribute[float],
    app_id: InstrumentedAttribute[str],
    sums: Mapping[str, ColumnElement[Any]],
) -> list[ColumnElement[Any]]:
    keys: dict[By, ColumnElement[Any] | InstrumentedAttribute[str]] = {
        "app": app_id,
        "queue": func.coalesce(AppRow.queue, ""),
        "user": func.coalesce(AppRow.user, ""),
        "day": day(at_s, scope.zone_min),
    }
    nothing = {name: literal(0 if name in _WHOLE else 0.0, BigInteger if name in _WHOLE else Double) for name in _SUMS}
    return [keys[scope.by].label("key"), *(sums.get(name, nothing[name]).label(name) for name in _SUMS)]


def _within(
    scope: Scope, query: Select[Any], at_s: InstrumentedAttribute[float], app_id: InstrumentedAttribute[str]
) -> Select[Any]:
    query = query.where(at_s >= scope.since_s)
    if scope.until_s is not None:
        query = query.where(at_s < scope.until_s)
    if scope.by in ("queue", "user"):
        query = query.outerjoin(AppRow, AppRow.id == app_id)
    return query.group_by("key")


def _count(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.sum(case((condition, 1), else_=0))


def _sum(condition: ColumnElement[bool], value: ColumnElement[Any] | InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    return func.sum(case((condition, value), else_=0))


def _row(sums: dict[str, Any], by: By) -> LedgerRow:
    key = sums["key"]
    text = datetime.fromtimestamp(int(key) * _DAY_S, UTC).date().isoformat() if by == "day" else str(key)
    names = {name: sums.get(name) or "" for name in ("name", "queue", "user")}
    values = {name: int(sums[name]) if name in _WHOLE else round(float(sums[name]), 3) for name in _SUMS}
    return LedgerRow(key=text, **names, **values)


def _day_number(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) // _DAY_S


def csv_header(by: By) -> str:
    """Return the first line of a CSV file."""
    return _line([by, *_named(by), *_SUMS])


def csv_lines(rows: Sequence[LedgerRow], by: By) -> str:
    """Return rows as CSV (RFC 4180); texts that a spreadsheet would take for formulas begin with an apostrophe."""
    return "".join(_line([getattr(row, name) for name in ("key", *_named(by), *_SUMS)]) for row in rows)


def _named(by: By) -> tuple[str, ...]:
    return ("name", "queue", "user") if by == "app" else ()


def _line(values: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_harmless(v) if isinstance(v, str) else v for v in values])
    return out.getvalue()


def _harmless(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
