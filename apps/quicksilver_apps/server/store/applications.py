"""Applications in the store: received, moved from state to state, listed, counted, pruned.

Each function is one piece of work for `Database.read` or `Database.write`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, or_, select, update

from quicksilver_apps.server.records import QuotaSize, ServedApplication, StateChange
from quicksilver_apps.server.states import COUNTED, ENDED, WAITING, State, check_move
from quicksilver_apps.server.store import instances
from quicksilver_apps.server.store.tables import ApplicationRow, AppsBase, InstanceRow, TransitionRow

_APPLICATIONS: Final[Table] = AppsBase.metadata.tables["applications"]
_TRANSITIONS: Final[Table] = AppsBase.metadata.tables["transitions"]
_INSTANCES: Final[Table] = AppsBase.metadata.tables["instances"]
_LIGHT: Final = [column for column in _APPLICATIONS.columns if column.name not in ("description", "view")]
_MAX_TEXT: Final = 4000
_PRUNE_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Selection:
    """Which applications a list has; empty: all."""

    user: str = ""
    states: tuple[State, ...] = ()
    app_class: str = ""
    queue: str = ""
    text: str = ""
    template: str = ""
    since_s: float = 0.0

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return SQL's conditions."""
        conditions: list[ColumnElement[bool]] = []
        for column, value in (
            (ApplicationRow.user, self.user),
            (ApplicationRow.app_class, self.app_class),
            (ApplicationRow.queue, self.queue),
            (ApplicationRow.template, self.template),
        ):
            conditions += [column == value] if value else []
        if self.states:
            conditions.append(ApplicationRow.state.in_(self.states))
        if self.text:
            columns = (ApplicationRow.name, ApplicationRow.title, ApplicationRow.id, ApplicationRow.yarn_id)
            conditions.append(or_(*(column.icontains(self.text, autoescape=True) for column in columns)))
        if self.since_s:
            conditions.append(ApplicationRow.received_s >= self.since_s)
        return conditions


def receive(connection: Connection, record: ServedApplication) -> StateChange | None:
    """Store a new application; None when there is one with its id already."""
    if get(connection, record.id) is not None:
        return None
    connection.execute(insert(_APPLICATIONS).values(**asdict(record)))
    return _changed(connection, record, None, State.RECEIVED, record.why, record.received_s)


def move(
    connection: Connection, app_id: str, source: State, target: State, why: str, now_s: float, **fields: Any
) -> StateChange | None:
    """Change a state, with other fields, and write it to the history; None when it is in another state meanwhile.

    With the application its containers end, so that no reader sees one without the other.
    Raises UnexpectedMoveError for a move that is not in the table of moves.
    """
    check_move(source, target)
    values = {"state": target, "why": why[:_MAX_TEXT], "changed_s": now_s, **fields}
    if target in ENDED:
        values.setdefault("ended_s", now_s)
    here = _APPLICATIONS.c.id == app_id
    statement = update(_APPLICATIONS).where(here, _APPLICATIONS.c.state == source).values(**values)
    if connection.execute(statement).rowcount == 0:
        return None
    if target in ENDED:
        instances.close_all(connection, app_id, float(values["ended_s"]))
    record = get(connection, app_id)
    assert record is not None
    return _changed(connection, record, source, target, why, now_s)


def note(connection: Connection, app_id: str, **fields: Any) -> None:
    """Change fields of an application without a change of its state."""
    connection.execute(update(_APPLICATIONS).where(_APPLICATIONS.c.id == app_id).values(**fields))


def get(connection: Connection, app_id: str) -> ServedApplication | None:
    """Return the application with the id of a request, or of YARN."""
    column = _APPLICATIONS.c.yarn_id if app_id.startswith("application_") else _APPLICATIONS.c.id
    row = connection.execute(select(_APPLICATIONS).where(column == app_id)).first()
    return None if row is None else _record(row._mapping)


def listing(connection: Connection, query: Selection, limit: int, offset: int) -> list[ServedApplication]:
    """Return applications, the newest first."""
    statement = select(_APPLICATIONS).where(*query.conditions())
    ordered = statement.order_by(_APPLICATIONS.c.received_s.desc(), _APPLICATIONS.c.id).limit(limit).offset(offset)
    return [_record(row._mapping) for row in connection.execute(ordered)]


def in_states(connection: Connection, states: Collection[State]) -> list[ServedApplication]:
    """Return the applications in some states, the oldest first, without their descriptions and views."""
    statement = select(*_LIGHT).where(_APPLICATIONS.c.state.in_(states))
    ordered = statement.order_by(_APPLICATIONS.c.received_s, _APPLICATIONS.c.id)
    return [_record({**row._mapping, "description": {}, "view": {}}) for row in connection.execute(ordered)]


def counts(connection: Connection) -> dict[str, int]:
    """Return how many applications are in each state."""
    statement = select(_APPLICATIONS.c.state, func.count()).group_by(_APPLICATIONS.c.state)
    return {str(state): count for state, count in connection.execute(statement)}


def waiting_of(connection: Connection, but: Sequence[str] = ()) -> dict[str, int]:
    """Return how many applications of each user wait for their submission; but: ids that are not counted."""
    columns = _APPLICATIONS.c
    statement = select(columns.user, func.count()).where(columns.state.in_(WAITING), columns.id.not_in(but))
    return {str(user): count for user, count in connection.execute(statement.group_by(columns.user))}


def used(connection: Connection) -> dict[str, tuple[int, QuotaSize]]:
    """Return what each user's applications at YARN use: their number and their sizes together."""
    columns = _APPLICATIONS.c
    sums = (func.sum(columns.memory_mb), func.sum(columns.vcores), func.sum(columns.elastic))
    statement = select(columns.user, func.count(), *sums).where(columns.state.in_(COUNTED)).group_by(columns.user)
    rows = connection.execute(statement)
    return {
        str(user): (count, QuotaSize(int(mb), int(cores), int(elastic))) for user, count, mb, cores, elastic in rows
    }


def history(connection: Connection, app_id: str) -> list[StateChange]:
    """Return the changes of an application's state, the oldest first."""
    statement = select(_TRANSITIONS).where(_TRANSITIONS.c.app_id == app_id).order_by(_TRANSITIONS.c.seq)
    return [StateChange(**row._mapping) for row in connection.execute(statement)]


def changes_after(connection: Connection, seq: int, limit: int) -> list[StateChange]:
    """Return changes of all applications behind a number, in their order."""
    statement = select(_TRANSITIONS).where(_TRANSITIONS.c.seq > seq).order_by(_TRANSITIONS.c.seq).limit(limit)
    return [StateChange(**row._mapping) for row in connection.execute(statement)]


def last_change(connection: Connection) -> int:
    """Return the number of the newest change; 0 without any."""
    return int(connection.scalar(select(func.max(_TRANSITIONS.c.seq))) or 0)


def prune(connection: Connection, before_s: float) -> int:
    """Delete applications that ended before a time, with all that belongs to them; returns how many."""
    old = select(_APPLICATIONS.c.id).where(_APPLICATIONS.c.ended_s < before_s).limit(_PRUNE_ROWS)
    ids: Sequence[str] = [row[0] for row in connection.execute(old)]
    for table, column in (
        (_TRANSITIONS, TransitionRow.app_id),
        (_INSTANCES, InstanceRow.app_id),
        (_APPLICATIONS, ApplicationRow.id),
    ):
        connection.execute(delete(table).where(column.in_(ids)))
    return len(ids)


def _changed(
    connection: Connection, record: ServedApplication, source: State | None, target: State, why: str, now_s: float
) -> StateChange:
    check_move(source, target)
    values = {
        "app_id": record.id,
        "user": record.user,
        "name": record.name,
        "at_s": now_s,
        "source": source or "",
        "target": target,
        "why": why[:_MAX_TEXT],
    }
    result = connection.execute(insert(_TRANSITIONS).values(**values))
    key = result.inserted_primary_key
    assert key is not None
    return StateChange(
        seq=int(key[0]), **{name: str(value) for name, value in values.items() if name != "at_s"}, at_s=now_s
    )


def _record(row: Mapping[Any, Any]) -> ServedApplication:
    fields = {str(name): value for name, value in row.items()}
    return ServedApplication(**(fields | {"state": State(fields["state"])}))
