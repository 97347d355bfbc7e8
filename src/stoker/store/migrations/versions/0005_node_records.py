"""What is kept of nodes beside what their engines see: cordons, and what they were to blame for."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "node_records",
        sa.Column("node", sa.String, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
