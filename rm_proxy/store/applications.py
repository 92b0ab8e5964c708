"""Applications in the store: those that match a filter, in an order. Raises StoreUnavailableError."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstrumentedAttribute, Session

from rm_proxy.store.ledger import Ledger
from rm_proxy.store.store import Store
from rm_proxy.store.tables import AppRow
from rm_proxy.views.application_models import State
from rm_proxy.views.cluster_models import ApplicationInfo, ApplicationRecord
from rm_proxy.views.history_models import LedgerRow

SortKey = Literal["submitted", "finished", "elapsed", "id", "name", "user", "queue", "type", "waiting", "held"]
MAX_REMEMBERED: Final = 5000
_SETTLED_S: Final = 120.0
"""Time after an application's end by which the sidecars have reported everything of it."""


@dataclass(frozen=True, slots=True)
class AppFilter:
    """Filter of applications; None or "": any value."""

    state: State | None = None
    queue: str = ""
    """Full path: the queue itself and all below it."""
    user: str = ""
    type: str = ""
    """Upper case."""
    text: str = ""
    """Part of the name or of the id."""
    since_s: float = 0.0
    """Submitted, or still there, at this time or later (Unix seconds)."""

    def has(self, app: ApplicationInfo) -> bool:
        """Return whether a live application passes, its state aside."""
        text = self.text.lower()
        return (
            (not self.queue or app.queue == self.queue or app.queue.startswith(f"{self.queue}."))
            and self.user in ("", app.user)
            and self.type in ("", app.type.upper())
            and (not text or text in app.name.lower() or text in app.id.lower())
        )

    def conditions(self, live: Collection[str]) -> list[ColumnElement[bool]]:
        """Return what a query has to say; live: ids of applications that live now, which are left out."""
        conditions: list[ColumnElement[bool]] = [AppRow.id.notin_(live)] if live else []
        if self.state == "finished":
            conditions.append(AppRow.finished_s.is_not(None))
        elif self.state == "unknown":
            conditions.append(AppRow.finished_s.is_(None))
        if self.queue:
            below = AppRow.queue.startswith(f"{self.queue}.", autoescape=True)
            conditions.append(or_(AppRow.queue == self.queue, below))
        if self.user:
            conditions.append(AppRow.user == self.user)
        if self.type:
            conditions.append(func.upper(AppRow.type) == self.type)
        if self.text:
            parts = (AppRow.name, AppRow.id)
            conditions.append(or_(*(column.icontains(self.text, autoescape=True) for column in parts)))
        if self.since_s > 0:
            conditions.append(func.coalesce(AppRow.finished_s, AppRow.submitted_s) >= self.since_s)
        return conditions


class StoredApplications:
    """Queries; thread-safe, each in a short transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def matching(
        self, scope: AppFilter, sort: SortKey, *, descending: bool, live: Collection[str], limit: int, offset: int = 0
    ) -> list[ApplicationRecord]:
        """Return applications that do not live now; those without a value to sort by come last."""
        query = select(AppRow).where(*scope.conditions(live))
        query = _ordered(query, sort, descending).limit(limit).offset(offset)
        try:
            with Session(self._store.engine) as session:
                names = ApplicationRecord.model_fields
                return [
                    ApplicationRecord(**{name: getattr(row, name) for name in names}) for row in session.scalars(query)
                ]
        except SQLAlchemyError as error:
            raise self._store.unavailable(error) from error


class AppLedgers:
    """The ledger's rows of applications. Those of finished ones are remembered: they change no more."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: OrderedDict[str, LedgerRow | None] = OrderedDict()
        self._lock = Lock()

    def rows(self, apps: Sequence[ApplicationRecord | ApplicationInfo], now_s: float) -> dict[str, LedgerRow]:
        """Return the rows by id; applications of which nothing is stored are left out."""
        with self._lock:
            rows = {app.id: self._known[app.id] for app in apps if app.id in self._known}
        more = self._ledger.of_applications([app.id for app in apps if app.id not in rows])
        over = [app.id for app in apps if app.finished_s is not None and now_s - app.finished_s > _SETTLED_S]
        with self._lock:
            self._known.update((app_id, more.get(app_id)) for app_id in over if app_id not in rows)
            while len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        return {app_id: row for app_id, row in {**rows, **more}.items() if row is not None}


def _ordered(query: Select[Any], sort: SortKey, descending: bool) -> Select[Any]:
    elapsed = AppRow.finished_s - AppRow.submitted_s
    columns: dict[str, ColumnElement[Any] | InstrumentedAttribute[Any]] = {
        "submitted": AppRow.submitted_s,
        "finished": AppRow.finished_s,
        "elapsed": elapsed,
        "name": func.lower(AppRow.name),
        "user": AppRow.user,
        "queue": AppRow.queue,
        "type": AppRow.type,
    }
    key = columns.get(sort)  # id, and what only live ones have: waiting, held
    by = [] if key is None else [key.is_(None), key.desc() if descending else key]
    ids = (func.length(AppRow.id), AppRow.id)  # numbers beyond 9999 have more digits
    return query.order_by(*by, *(column.desc() if descending else column for column in ids))
