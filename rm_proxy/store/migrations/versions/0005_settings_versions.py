"""Which version of the settings decided on a container."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COLUMNS = ("version", "place_version")


def upgrade() -> None:
    """Add the columns; of earlier grants it is not known."""
    for name in _COLUMNS:
        column: sa.Column[str] = sa.Column(name, sa.Text(), nullable=False, server_default=sa.text("''"))
        op.add_column("grants", column)


def downgrade() -> None:
    """Drop them."""
    for name in _COLUMNS:
        op.drop_column("grants", name)
