"""Jobs are listed by dialect and state, with their newest attempt, and can be forgotten."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns that lists go by, and fill them from the bodies. A body leaves out what is as it was at first."""
    for name, kind, first in (("dialect", sa.String, ""), ("state", sa.String, "QUEUED")):
        op.add_column("jobs", sa.Column(name, kind, nullable=False, server_default=first))
    for name in ("tries", "hidden"):
        op.add_column("jobs", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    op.execute(
        "UPDATE jobs SET dialect = json_extract(body, '$.request.dialect'),"
        " state = coalesce(json_extract(body, '$.state'), 'QUEUED'),"
        " tries = coalesce(json_extract(body, '$.tries'), 0)"
    )
    op.create_index("jobs_of_dialect", "jobs", ["project", "dialect", "n"])
    op.create_index("jobs_of_state", "jobs", ["project", "state", "n"])
