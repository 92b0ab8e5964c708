"""Values of the store's rows, as tuples in the order of their tables' columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final

from sqlalchemy import JSON, Table, Text

from rm_proxy.domain.records import (
    MAX_SCORES,
    AppRecord,
    ChangeRecord,
    CompletionRecord,
    DecisionRecord,
    DurationRecord,
    GrantRecord,
    UseRecord,
)
from rm_proxy.store.rows import TABLE_NAMES, NodeEvent, NodeSeen, Row
from rm_proxy.store.tables import Base, Event
from rm_proxy.store.writer import MAX_TEXT

Values = tuple[Any, ...]
TABLES: Final[Mapping[str, Table]] = dict(Base.metadata.tables)
UPDATED: Final[Mapping[str, tuple[str, ...]]] = {
    "applications": (),
    "nodes": ("first_seen_s",),
    "node_use": (),
    "durations": (),
}
"""Tables whose rows are updated, and the columns that are kept nevertheless."""
_PATHS: Final[Mapping[type, Mapping[str, str]]] = {
    GrantRecord: {"kind": "kind._value_", "memory_mb": "resources.memory_mb", "vcores": "resources.vcores"},
    NodeEvent: {
        column.name: "event.kind._value_" if column.name == "kind" else f"event.{column.name}"
        for column in Event.__table__.columns
        if column.name not in ("node_id", "boot")
    },
    NodeSeen: {
        "memory_mb": "capacity.memory_mb",
        "vcores": "capacity.vcores",
        "first_seen_s": "at_s",
        "last_seen_s": "at_s",
    },
}
"""By record: columns that do not have the name of their attribute, and where their values are."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the values of a kind of records are read."""

    table: str
    read: Callable[[Any], Values]
    texts: Callable[[Values], Iterable[Any]]
    """Returns the texts among the values."""
    scores: int | None
    """Place of the scores among the values."""
    key: Callable[[Values], object]


def _layout(record: type) -> _Layout:
    table, paths = TABLES[TABLE_NAMES[record]], _PATHS.get(record, {})
    columns = list(table.columns)
    names = [column.name for column in columns]
    texts = [at for at, column in enumerate(columns) if isinstance(column.type, Text)]
    return _Layout(
        table.name,
        attrgetter(*(paths.get(name, name) for name in names)),
        itemgetter(*texts),
        names.index("scores") if "scores" in names else None,
        itemgetter(*(names.index(column.name) for column in table.primary_key)),
    )


_LAYOUTS: Final = {
    record: _layout(record)
    for record in (
        AppRecord,
        ChangeRecord,
        CompletionRecord,
        DecisionRecord,
        DurationRecord,
        GrantRecord,
        NodeEvent,
        NodeSeen,
        UseRecord,
    )
}
LISTS: Final[Mapping[str, tuple[int, ...]]] = {
    name: tuple(at for at, column in enumerate(table.columns) if isinstance(column.type, JSON))
    for name, table in TABLES.items()
}
"""By table: the places of the values that are lists."""


def values_by_table(rows: Sequence[Row]) -> dict[str, list[Values]]:
    """Return the values of each table; of applications, nodes and what else is updated the last ones of each key."""
    tables: dict[str, list[Values]] = {}
    updates: dict[str, dict[object, Values]] = {}
    for row in rows:
        layout = _LAYOUTS[type(row)]
        values = _values(row, layout)
        if layout.table in UPDATED:
            updates.setdefault(layout.table, {})[layout.key(values)] = values
        elif layout.table in tables:
            tables[layout.table].append(values)
        else:
            tables[layout.table] = [values]
    return tables | {name: list(keyed.values()) for name, keyed in updates.items()}


def _values(row: Row, layout: _Layout) -> Values:
    values, scores = layout.read(row), layout.scores
    if scores is not None:
        values = (*values[:scores], _finite(values[scores]), *values[scores + 1 :])
    if _takes("".join(filter(None, layout.texts(values)))):
        return values  # nearly always
    return tuple(_clean(value) if isinstance(value, str) else value for value in values)


def _finite(scores: Sequence[tuple[str, float]]) -> list[list[Any]]:
    return [[node, score if math.isfinite(score) else None] for node, score in scores[:MAX_SCORES]]


def _takes(text: str) -> bool:
    """Return whether every database takes a text as it is."""
    return len(text) <= MAX_TEXT and text.isascii() and "\0" not in text


def _clean(text: str) -> str:
    """Return `text` as every database takes it: plain str, bounded, without NUL and lone surrogates."""
    if type(text) is str and _takes(text):
        return text
    return str(text)[:MAX_TEXT].replace("\0", "").encode("utf-8", "replace").decode()
