"""The first tables: applications, grants, completions, container_events, nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables and their indexes."""
    _applications()
    _grants()
    _completions()
    _container_events()
    _nodes()


def downgrade() -> None:
    """Drop all tables."""
    for table in ("nodes", "container_events", "completions", "grants", "applications"):
        op.drop_table(table)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _integer(name: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _number(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _applications() -> None:
    op.create_table(
        "applications",
        _text("id"),
        *(_text(name) for name in ("queue", "user", "type", "name")),
        sa.Column("tags", sa.JSON(), nullable=False),
        _integer("priority"),
        _number("submitted_s"),
        _number("finished_s", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_applications"),
    )
    op.create_index("ix_applications_submitted_s", "applications", ["submitted_s"])


def _grants() -> None:
    op.create_table(
        "grants",
        *(_text(name) for name in ("container_id", "app_id", "attempt_id", "kind", "route_reason", "node_id")),
        _text("wanted_node", nullable=True),
        _text("place_reason"),
        sa.Column("scores", sa.JSON(), nullable=False),
        _text("unit"),
        _integer("priority"),
        _integer("memory_mb"),
        *(_number(name) for name in ("vcores", "expected_s", "asked_s", "granted_s")),
        _text("shadow", nullable=True),
        sa.PrimaryKeyConstraint("container_id", name="pk_grants"),
    )
    op.create_index("ix_grants_app_id_granted_s", "grants", ["app_id", "granted_s"])
    op.create_index("ix_grants_granted_s", "grants", ["granted_s"])


def _completions() -> None:
    op.create_table(
        "completions",
        _text("container_id"),
        _text("app_id"),
        _integer("exit_status"),
        _integer("original_exit_status", nullable=True),
        _text("diagnostics"),
        _number("at_s"),
        sa.Column("own", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("container_id", name="pk_completions"),
    )
    op.create_index("ix_completions_app_id", "completions", ["app_id"])
    op.create_index("ix_completions_at_s", "completions", ["at_s"])


def _container_events() -> None:
    op.create_table(
        "container_events",
        _text("node_id"),
        _text("boot"),
        sa.Column("seq", sa.BigInteger(), nullable=False, autoincrement=False),
        _text("container_id"),
        _text("kind"),
        _number("at_s"),
        _text("reason"),
        _number("waited_s"),
        _number("ran_s", nullable=True),
        sa.PrimaryKeyConstraint("node_id", "boot", "seq", name="pk_container_events"),
    )
    op.create_index("ix_container_events_container_id", "container_events", ["container_id"])
    op.create_index("ix_container_events_at_s", "container_events", ["at_s"])


def _nodes() -> None:
    op.create_table(
        "nodes",
        *(_text(name) for name in ("id", "host", "rack", "label")),
        _integer("memory_mb"),
        *(_number(name) for name in ("vcores", "first_seen_s", "last_seen_s")),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
    )
    op.create_index("ix_nodes_last_seen_s", "nodes", ["last_seen_s"])
