"""Instances of applications in the store, for the timelines of running and ended applications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from quicksilver_apps.server.records import InstanceSpan
from quicksilver_apps.server.states import ENDED
from quicksilver_apps.server.store.tables import AppsBase

_APPLICATIONS: Final[Table] = AppsBase.metadata.tables["applications"]
_INSTANCES: Final[Table] = AppsBase.metadata.tables["instances"]


def save(connection: Connection, spans: Sequence[InstanceSpan], limit: int) -> None:
    """Store containers of one application anew; beyond `limit` the oldest are deleted.

    Those of an application that has ended stay as they are: an answer of its master came late.
    """
    if not spans:
        return
    app_id = spans[0].app_id
    if connection.scalar(select(_APPLICATIONS.c.state).where(_APPLICATIONS.c.id == app_id)) in ENDED:
        return
    known = {(span.service, span.number, span.container_id) for span in of(connection, app_id)}
    for span in spans:
        key = (span.service, span.number, span.container_id)
        if key in known:
            connection.execute(update(_INSTANCES).where(*_is(span)).values(**asdict(span)))
        else:
            connection.execute(insert(_INSTANCES).values(**asdict(span)))
            known.add(key)
    if len(known) > limit:
        for span in of(connection, app_id)[: len(known) - limit]:
            connection.execute(delete(_INSTANCES).where(*_is(span)))


def of(connection: Connection, app_id: str) -> list[InstanceSpan]:
    """Return the containers of an application, the oldest first."""
    columns = _INSTANCES.c
    order = (columns.started_s, columns.service, columns.number, columns.container_id)
    rows = connection.execute(select(_INSTANCES).where(columns.app_id == app_id).order_by(*order))
    return [InstanceSpan(**row._mapping) for row in rows]


def close_all(connection: Connection, app_id: str, now_s: float) -> None:
    """Have all containers of an application that ended end with it, where no end is known."""
    columns = _INSTANCES.c
    living = (columns.app_id == app_id, columns.ended_s.is_(None))
    connection.execute(update(_INSTANCES).where(*living).values(ended_s=now_s, state="ended"))


def _is(span: InstanceSpan) -> tuple[ColumnElement[bool], ...]:
    columns = _INSTANCES.c
    return (
        columns.app_id == span.app_id,
        columns.service == span.service,
        columns.number == span.number,
        columns.container_id == span.container_id,
    )
