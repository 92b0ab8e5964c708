"""The tables of the app server (SQLAlchemy); `migrations/` creates and alters them. Times are Unix seconds."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import JSON, BigInteger, Boolean, Double, Index, Integer, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NEWEST: Final = "0001"
"""The version that this program works with: the last file in migrations/versions."""
_NAMES: Final = {"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"}
Serial: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only a key of the type INTEGER."""


class AppsBase(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {str: Text, int: BigInteger, float: Double, bool: Boolean, dict[str, Any]: JSON}  # noqa: RUF012


class ApplicationRow(AppsBase):
    """One submission."""

    __tablename__ = "applications"
    __table_args__ = (Index(None, "state", "received_s"), Index(None, "user", "state"), Index(None, "yarn_id"))

    id: Mapped[str] = mapped_column(primary_key=True)
    """The id of the request, a UUID."""
    yarn_id: Mapped[str]
    user: Mapped[str]
    role: Mapped[str]
    name: Mapped[str]
    title: Mapped[str]
    app_class: Mapped[str]
    queue: Mapped[str]
    state: Mapped[str]
    why: Mapped[str]
    description: Mapped[dict[str, Any]]
    template: Mapped[str]
    template_version: Mapped[int]
    labels: Mapped[dict[str, Any]]
    key: Mapped[str]
    memory_mb: Mapped[int]
    vcores: Mapped[int]
    elastic: Mapped[int]
    received_s: Mapped[float] = mapped_column(index=True)
    changed_s: Mapped[float]
    submitted_s: Mapped[float | None]
    started_s: Mapped[float | None]
    ended_s: Mapped[float | None] = mapped_column(index=True)
    tries: Mapped[int]
    kill_s: Mapped[float | None]
    """When its kill was ordered."""
    kill_why: Mapped[str]
    master_url: Mapped[str]
    tracking_url: Mapped[str]
    diagnostics: Mapped[str]
    view: Mapped[dict[str, Any]]
    """The last answer of its master."""


class TransitionRow(AppsBase):
    """A change of the state of an application; the numbers order all of them."""

    __tablename__ = "transitions"
    __table_args__ = (Index(None, "app_id", "seq"),)

    seq: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    app_id: Mapped[str]
    user: Mapped[str]
    name: Mapped[str]
    at_s: Mapped[float]
    source: Mapped[str]
    """"" for the first."""
    target: Mapped[str]
    why: Mapped[str]


class InstanceRow(AppsBase):
    """One container of an application, as its master last reported it."""

    __tablename__ = "instances"

    app_id: Mapped[str] = mapped_column(primary_key=True)
    service: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    container_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    node: Mapped[str]
    state: Mapped[str]
    log_url: Mapped[str]
    exit_status: Mapped[int | None]
    started_s: Mapped[float]
    ready_s: Mapped[float | None]
    ended_s: Mapped[float | None]
    diagnostics: Mapped[str]


class TemplateRow(AppsBase):
    """One version of a template."""

    __tablename__ = "templates"

    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    title: Mapped[str]
    owner: Mapped[str]
    created_s: Mapped[float]
    deleted: Mapped[bool]
    """Whether this version deletes the template."""
