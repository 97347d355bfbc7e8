"""Rules of alerts, the deliveries that follow from them, and up to where in the story they were made."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Make three tables, all empty."""
    op.create_table(
        "alert_rules",
        sa.Column("n", _NUMBER, primary_key=True),
        sa.Column("owner", _NAME, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("left_out", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("owner", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "alert_cursor",
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", _NUMBER, nullable=False),
        sa.Column("marks", sa.Text, nullable=False),
    )
    op.create_table(
        "alert_deliveries",
        sa.Column("n", _NUMBER, primary_key=True),
        sa.Column("rule", _NUMBER, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("next_at", sa.Float, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("deliveries_by_state", "alert_deliveries", ["state", "rule", "next_at"])
    op.create_index("deliveries_of_rule", "alert_deliveries", ["rule", "event", "subject", "at"])
