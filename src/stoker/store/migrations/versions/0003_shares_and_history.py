"""A device may be held in shares, as long as they are no more than the whole; ended jobs are found by when they ended."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Count what is held of each device, let the database refuse more than there is, and note when jobs ended."""
    op.add_column("jobs", sa.Column("ended_at", sa.Float))
    op.execute("UPDATE jobs SET ended_at = json_extract(body, '$.ended_at')")
    op.create_index("ended_jobs", "jobs", ["ended_at"])
    op.rename_table("holdings", "whole_holdings")
    op.drop_index("holdings_of_attempt")
    op.create_table(
        "holdings",
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("device", sa.String, nullable=False),
        sa.Column("attempt", sa.String, nullable=False),
        sa.Column("milli", sa.Integer, nullable=False),
    )
    op.execute(
        "INSERT INTO holdings (node, device, attempt, milli) SELECT node, device, attempt, 1000 FROM whole_holdings"
    )
    op.drop_table("whole_holdings")
    op.create_index("holdings_of_attempt", "holdings", ["attempt"])
    op.create_index("holdings_of_device", "holdings", ["node", "device"])
    op.execute(
        "CREATE TRIGGER a_device_is_held_once BEFORE INSERT ON holdings"
        " WHEN NEW.milli + (SELECT coalesce(sum(milli), 0) FROM holdings"
        " WHERE node = NEW.node AND device = NEW.device) > 1000"
        " BEGIN SELECT RAISE(ABORT, 'the device is held'); END"
    )
