"""Decisions, changes of settings, use of nodes by time of the week, durations by job name; causes of events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TEXTS = ("slot", "policy", "app_id", "container_id", "node_id", "chosen", "reason")


def upgrade() -> None:
    """Create the tables; earlier events have no cause and saved nothing."""
    cause = sa.Column("cause", sa.Text(), nullable=False, server_default=sa.text("''"))
    op.add_column("container_events", cause)
    saved: sa.Column[float] = sa.Column("saved_s", sa.Double(), nullable=False, server_default=sa.text("0"))
    op.add_column("container_events", saved)
    op.create_table(
        "decisions",
        _text("id"),
        _number("at_s"),
        *(_text(name) for name in _TEXTS),
        sa.Column("scores", sa.JSON(), nullable=False),
        *(_text(name) for name in ("unit", "alternative", "other")),
        _whole("weight"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
    )
    for column in ("at_s", "app_id", "container_id"):
        op.create_index(f"ix_decisions_{column}", "decisions", [column])
    op.create_table(
        "changes",
        _text("id"),
        _number("at_s"),
        _text("who"),
        _text("how"),
        sa.Column("ok", sa.Boolean(), nullable=False),
        *(_text(name) for name in ("path", "before", "after", "error")),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
    )
    op.create_index("ix_changes_at_s", "changes", ["at_s"])
    op.create_table(
        "node_use",
        _text("node_id"),
        _whole("slot"),
        _whole("count"),
        *(_number(name) for name in ("mean_mb", "peak_mb", "mean_vcores", "peak_vcores", "at_s")),
        sa.PrimaryKeyConstraint("node_id", "slot", name="pk_node_use"),
    )
    op.create_index("ix_node_use_at_s", "node_use", ["at_s"])
    op.create_table(
        "durations",
        _text("app_type"),
        _text("app_name"),
        _whole("priority"),
        _whole("count"),
        *(_number(name) for name in ("mean_s", "m2", "at_s")),
        sa.PrimaryKeyConstraint("app_type", "app_name", "priority", name="pk_durations"),
    )
    op.create_index("ix_durations_at_s", "durations", ["at_s"])


def downgrade() -> None:
    """Drop them."""
    for table in ("durations", "node_use", "changes", "decisions"):
        op.drop_table(table)
    op.drop_column("container_events", "saved_s")
    op.drop_column("container_events", "cause")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)
