"""The tables of the store (SQLAlchemy); `migrations/` creates and alters them. Times are Unix seconds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Double, Index, MetaData, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {str: Text, int: BigInteger, float: Double, list[Any]: JSON}  # noqa: RUF012


class AppRow(Base):
    """An application as the ResourceManager described it last."""

    __tablename__ = "applications"

    id: Mapped[str] = mapped_column(primary_key=True)
    queue: Mapped[str]
    user: Mapped[str]
    type: Mapped[str]
    name: Mapped[str]
    tags: Mapped[list[Any]]
    priority: Mapped[int]
    submitted_s: Mapped[float] = mapped_column(index=True)
    finished_s: Mapped[float | None]
    final_status: Mapped[str] = mapped_column(server_default="")


class GrantRow(Base):
    """A container as it was delivered, with the reasons of its kind and place."""

    __tablename__ = "grants"
    __table_args__ = (
        Index(None, "app_id", "granted_s"),
        Index(None, "follows"),  # of those that have one: migration 0004; the condition here would load both dialects
    )

    container_id: Mapped[str] = mapped_column(primary_key=True)
    app_id: Mapped[str]
    attempt_id: Mapped[str]
    kind: Mapped[str]
    route_reason: Mapped[str]
    node_id: Mapped[str]
    wanted_node: Mapped[str | None]
    place_reason: Mapped[str]
    scores: Mapped[list[Any]]
    unit: Mapped[str]
    priority: Mapped[int]
    memory_mb: Mapped[int]
    vcores: Mapped[float]
    expected_s: Mapped[float]
    asked_s: Mapped[float]
    granted_s: Mapped[float] = mapped_column(index=True)
    shadow: Mapped[str | None]
    spread_s: Mapped[float] = mapped_column(server_default=text("0"))
    expected_by: Mapped[str] = mapped_column(server_default=text("''"))
    retries: Mapped[int] = mapped_column(server_default=text("0"))
    follows: Mapped[str] = mapped_column(server_default=text("''"))
    version: Mapped[str] = mapped_column(server_default=text("''"))
    place_version: Mapped[str] = mapped_column(server_default=text("''"))


class Completion(Base):
    """A container's end as reported to its application master."""

    __tablename__ = "completions"

    container_id: Mapped[str] = mapped_column(primary_key=True)
    app_id: Mapped[str] = mapped_column(index=True)
    exit_status: Mapped[int]
    original_exit_status: Mapped[int | None]
    diagnostics: Mapped[str]
    at_s: Mapped[float] = mapped_column(index=True)
    own: Mapped[bool]


class Event(Base):
    """An event that a sidecar reported of a container."""

    __tablename__ = "container_events"

    node_id: Mapped[str] = mapped_column(primary_key=True)
    boot: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    container_id: Mapped[str] = mapped_column(index=True)
    kind: Mapped[str]
    at_s: Mapped[float] = mapped_column(index=True)
    reason: Mapped[str]
    waited_s: Mapped[float]
    ran_s: Mapped[float | None]
    attained_s: Mapped[float | None]
    times_shrunk: Mapped[int] = mapped_column(server_default=text("0"))
    cause: Mapped[str] = mapped_column(server_default=text("''"))
    saved_s: Mapped[float] = mapped_column(server_default=text("0"))


class NodeRow(Base):
    """A node that was there."""

    __tablename__ = "nodes"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    rack: Mapped[str]
    label: Mapped[str]
    memory_mb: Mapped[int]
    vcores: Mapped[float]
    first_seen_s: Mapped[float]
    last_seen_s: Mapped[float] = mapped_column(index=True)


class DecisionRow(Base):
    """A decision beside those of `grants`, see `records.DecisionRecord`."""

    __tablename__ = "decisions"

    id: Mapped[str] = mapped_column(primary_key=True)
    at_s: Mapped[float] = mapped_column(index=True)
    slot: Mapped[str]
    policy: Mapped[str]
    app_id: Mapped[str] = mapped_column(index=True)
    container_id: Mapped[str] = mapped_column(index=True)
    node_id: Mapped[str]
    chosen: Mapped[str]
    reason: Mapped[str]
    scores: Mapped[list[Any]]
    unit: Mapped[str]
    alternative: Mapped[str]
    other: Mapped[str]
    weight: Mapped[int]


class ChangeRow(Base):
    """A change of the settings in force, see `records.ChangeRecord`."""

    __tablename__ = "changes"

    id: Mapped[str] = mapped_column(primary_key=True)
    at_s: Mapped[float] = mapped_column(index=True)
    who: Mapped[str]
    how: Mapped[str]
    ok: Mapped[bool]
    path: Mapped[str]
    before: Mapped[str]
    after: Mapped[str]
    error: Mapped[str]


class NodeUseRow(Base):
    """Use of a node by guaranteed containers at a time of the week, see `records.UseRecord`."""

    __tablename__ = "node_use"

    node_id: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    count: Mapped[int]
    mean_mb: Mapped[float]
    peak_mb: Mapped[float]
    mean_vcores: Mapped[float]
    peak_vcores: Mapped[float]
    at_s: Mapped[float] = mapped_column(index=True)


class Duration(Base):
    """How long the tasks of one job name and request priority ran, see `records.DurationRecord`."""

    __tablename__ = "durations"

    app_type: Mapped[str] = mapped_column(primary_key=True)
    app_name: Mapped[str] = mapped_column(primary_key=True)
    priority: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    count: Mapped[int]
    mean_s: Mapped[float]
    m2: Mapped[float]
    at_s: Mapped[float] = mapped_column(index=True)
