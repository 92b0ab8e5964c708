"""Templates in the store: descriptions with parameters, of which each change is a new version."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from sqlalchemy import Connection, Table, delete, func, insert, select

from quicksilver_apps.server.records import StoredTemplate
from quicksilver_apps.server.store.tables import AppsBase

_TEMPLATES: Final[Table] = AppsBase.metadata.tables["templates"]


def newest(connection: Connection) -> list[StoredTemplate]:
    """Return the newest version of each template that is not deleted, by name."""
    columns = _TEMPLATES.c
    last = select(columns.name, func.max(columns.version).label("version")).group_by(columns.name).subquery()
    joined = select(_TEMPLATES).join(last, (columns.name == last.c.name) & (columns.version == last.c.version))
    rows = connection.execute(joined.where(columns.deleted.is_(False)).order_by(columns.name))
    return [StoredTemplate(**row._mapping) for row in rows]


def get(connection: Connection, name: str, version: int | None = None) -> StoredTemplate | None:
    """Return a version of a template, without a number the newest; None when it is not there or deleted."""
    columns = _TEMPLATES.c
    statement = select(_TEMPLATES).where(columns.name == name)
    if version is not None:
        statement = statement.where(columns.version == version)
    row = connection.execute(statement.order_by(columns.version.desc()).limit(1)).first()
    template = None if row is None else StoredTemplate(**row._mapping)
    return None if template is None or template.deleted else template


def versions(connection: Connection, name: str) -> list[StoredTemplate]:
    """Return all versions of a template that are kept, the newest first."""
    columns = _TEMPLATES.c
    rows = connection.execute(select(_TEMPLATES).where(columns.name == name).order_by(columns.version.desc()))
    return [StoredTemplate(**row._mapping) for row in rows]


def count_of_names(connection: Connection) -> int:
    """Return how many names there are, those of deleted templates too: a name stays its owner's."""
    return int(connection.scalar(select(func.count(func.distinct(_TEMPLATES.c.name)))) or 0)


def put(connection: Connection, template: StoredTemplate, keep: int) -> StoredTemplate:
    """Store a template as its next version, whatever number it has; `keep` versions stay. Returns it."""
    columns = _TEMPLATES.c
    last = connection.scalar(select(func.max(columns.version)).where(columns.name == template.name)) or 0
    fields = asdict(template) | {"version": int(last) + 1}
    connection.execute(insert(_TEMPLATES).values(**fields))
    old = (columns.name == template.name, columns.version <= int(last) + 1 - keep)
    connection.execute(delete(_TEMPLATES).where(*old))
    return StoredTemplate(**fields)
