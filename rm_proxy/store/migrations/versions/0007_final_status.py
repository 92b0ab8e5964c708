"""How an application ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of earlier applications it is not known."""
    column: sa.Column[str] = sa.Column("final_status", sa.Text(), nullable=False, server_default=sa.text("''"))
    op.add_column("applications", column)


def downgrade() -> None:
    """Drop it."""
    op.drop_column("applications", "final_status")
