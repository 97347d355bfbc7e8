"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables of version 0.1."""
    op.create_table(
        "jobs",
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("live", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("jobs_of_project", "jobs", ["project", "n"])
    op.create_index("live_jobs", "jobs", ["live"], sqlite_where=sa.text("live = 1"))
    op.create_table(
        "attempts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("job", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("live", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("job", "number"),
    )
    op.create_index("one_live_attempt_per_job", "attempts", ["job"], unique=True, sqlite_where=sa.text("live = 1"))
    op.create_table(
        "holdings",
        sa.Column("node", sa.String, primary_key=True),
        sa.Column("device", sa.String, primary_key=True),
        sa.Column("attempt", sa.String, nullable=False),
    )
    op.create_index("holdings_of_attempt", "holdings", ["attempt"])
    op.create_table(
        "nodes",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "story",
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("job", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("story_of_job", "story", ["job", "n"])
