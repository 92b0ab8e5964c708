"""Source of a container's expected duration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of earlier grants it is not known."""
    spread: sa.Column[float] = sa.Column("spread_s", sa.Double(), nullable=False, server_default=sa.text("0"))
    op.add_column("grants", spread)
    op.add_column("grants", sa.Column("expected_by", sa.Text(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("grants", "expected_by")
    op.drop_column("grants", "spread_s")
