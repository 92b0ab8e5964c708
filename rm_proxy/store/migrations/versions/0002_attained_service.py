"""What containers attained, and how often they were shrunk: two columns of container_events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; events that are there already have no attained service and were never shrunk."""
    op.add_column("container_events", sa.Column("attained_s", sa.Double(), nullable=True))
    shrunk = sa.Column("times_shrunk", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    op.add_column("container_events", shrunk)


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("container_events", "times_shrunk")
    op.drop_column("container_events", "attained_s")
