"""What a job's options set in its program's environment lies in one table of the job's body, by the names of variables.

The story is never rewritten: it keeps the words of its time, in which nobody looks for options.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_VARIABLES = {
    "distribute": "STOKER_DISTRIBUTE",
    "precision": "STOKER_PRECISION",
    "learning_rate_rule": "STOKER_LEARNING_RATE_RULE",
    "checkpoints": "STOKER_CHECKPOINTS",
}


def upgrade() -> None:
    """Move the four fields, where a job has one."""
    db = op.get_bind()
    jobs = sa.table("jobs", sa.column("id"), sa.column("body"))
    has_one = sa.or_(*(jobs.c.body.like(f'%"{name}":%') for name in _VARIABLES))
    for name, text in db.execute(sa.select(jobs.c.id, jobs.c.body).where(has_one)).fetchall():
        body = json.loads(text)
        program = body["spec"]["program"]
        found = {variable: program.pop(field, "") for field, variable in _VARIABLES.items()}
        if variables := {variable: value for variable, value in found.items() if value not in ("", "none")}:
            program["variables"] = variables
        db.execute(jobs.update().where(jobs.c.id == name).values(body=json.dumps(body)))
