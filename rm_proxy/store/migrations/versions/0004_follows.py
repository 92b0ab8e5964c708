"""Which container a container replaces, and how often its task was lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; earlier grants replaced none."""
    retries = sa.Column("retries", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    op.add_column("grants", retries)
    follows = sa.Column("follows", sa.Text(), nullable=False, server_default=sa.text("''"))
    op.add_column("grants", follows)
    some = sa.text("follows <> ''")
    op.create_index("ix_grants_follows", "grants", ["follows"], sqlite_where=some, postgresql_where=some)


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_grants_follows", "grants")
    op.drop_column("grants", "follows")
    op.drop_column("grants", "retries")
