"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _times(*names: str, nullable: bool = False) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Double(), nullable=nullable) for name in names]


def _data(*names: str) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.JSON(), nullable=False) for name in names]


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "applications",
        *_texts("id", "yarn_id", "user", "role", "name", "title", "app_class", "queue", "state", "why"),
        *_data("description", "labels", "view"),
        *_texts("template", "key", "kill_why", "master_url", "tracking_url", "diagnostics"),
        *_numbers("template_version", "memory_mb", "vcores", "elastic", "tries"),
        *_times("received_s", "changed_s"),
        *_times("submitted_s", "started_s", "ended_s", "kill_s", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_applications"),
    )
    for columns in (["state", "received_s"], ["user", "state"], ["yarn_id"], ["received_s"], ["ended_s"]):
        op.create_index(f"ix_applications_{'_'.join(columns)}", "applications", columns)
    op.create_table(
        "transitions",
        sa.Column("seq", _SERIAL, nullable=False, autoincrement=True),
        *_texts("app_id", "user", "name", "source", "target", "why"),
        *_times("at_s"),
        sa.PrimaryKeyConstraint("seq", name="pk_transitions"),
    )
    op.create_index("ix_transitions_app_id_seq", "transitions", ["app_id", "seq"])
    op.create_table(
        "instances",
        *_texts("app_id", "service", "container_id", "kind", "node", "state", "log_url", "diagnostics"),
        *_numbers("number"),
        sa.Column("exit_status", sa.BigInteger(), nullable=True),
        *_times("started_s"),
        *_times("ready_s", "ended_s", nullable=True),
        sa.PrimaryKeyConstraint("app_id", "service", "number", "container_id", name="pk_instances"),
    )
    op.create_table(
        "templates",
        *_texts("name", "text", "title", "owner"),
        *_numbers("version"),
        *_times("created_s"),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_templates"),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("templates", "instances", "transitions", "applications"):
        op.drop_table(table)
