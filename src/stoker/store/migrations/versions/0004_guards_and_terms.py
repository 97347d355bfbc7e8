"""What must not be is refused by the database itself, whoever writes; who leads is written down, and what is kept of nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

GUARDS = (
    "CREATE TRIGGER holdings_stay_as_they_are BEFORE UPDATE ON holdings WHEN 1 = 1 BEGIN SELECT"
    " RAISE(ABORT, 'what is held is released, never changed'); END",
    "CREATE TRIGGER a_job_begins_in_a_state BEFORE INSERT ON jobs WHEN NEW.state NOT IN ('QUEUED',"
    " 'ACTIVE', 'SUCCEEDED', 'FAILED', 'CANCELLED') OR NEW.live <> CASE WHEN NEW.state IN ('SUCCEEDED',"
    " 'FAILED', 'CANCELLED') THEN 0 ELSE 1 END BEGIN SELECT RAISE(ABORT, 'no such state of a job'); END",
    "CREATE TRIGGER a_job_is_in_a_state BEFORE UPDATE ON jobs WHEN NEW.state NOT IN ('QUEUED', 'ACTIVE',"
    " 'SUCCEEDED', 'FAILED', 'CANCELLED') OR NEW.live <> CASE WHEN NEW.state IN ('SUCCEEDED', 'FAILED',"
    " 'CANCELLED') THEN 0 ELSE 1 END BEGIN SELECT RAISE(ABORT, 'no such state of a job'); END",
    "CREATE TRIGGER an_ended_job_stays_so BEFORE UPDATE ON jobs WHEN OLD.state IN ('SUCCEEDED',"
    " 'FAILED', 'CANCELLED') AND (NEW.state <> OLD.state OR NEW.tries <> OLD.tries OR"
    " coalesce(NEW.ended_at, 0) <> coalesce(OLD.ended_at, 0)) BEGIN SELECT RAISE(ABORT, 'the job has"
    " ended'); END",
    "CREATE TRIGGER a_job_stays_itself BEFORE UPDATE ON jobs WHEN NEW.n <> OLD.n OR NEW.id <> OLD.id OR"
    " NEW.project <> OLD.project OR NEW.tries < OLD.tries BEGIN SELECT RAISE(ABORT, 'the job would"
    " become another one'); END",
    "CREATE TRIGGER a_job_stays BEFORE DELETE ON jobs WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'jobs are"
    " hidden, never deleted'); END",
    "CREATE TRIGGER a_job_outlives_its_attempts BEFORE UPDATE ON jobs WHEN NEW.live = 0 AND EXISTS"
    " (SELECT 1 FROM attempts WHERE job = NEW.id AND live = 1) BEGIN SELECT RAISE(ABORT, 'an attempt of"
    " the job lives'); END",
    "CREATE TRIGGER an_attempt_is_of_a_live_job BEFORE INSERT ON attempts WHEN NEW.live <> 1 OR NOT"
    " EXISTS (SELECT 1 FROM jobs WHERE id = NEW.job AND live = 1) BEGIN SELECT RAISE(ABORT, 'there is no"
    " live job for the attempt'); END",
    "CREATE TRIGGER an_ended_attempt_stays_so BEFORE UPDATE ON attempts WHEN NEW.live NOT IN (0, 1) OR"
    " NEW.live > OLD.live OR NEW.id <> OLD.id OR NEW.job <> OLD.job OR NEW.number <> OLD.number BEGIN"
    " SELECT RAISE(ABORT, 'the attempt has ended, or would become another one'); END",
    "CREATE TRIGGER an_attempt_stays BEFORE DELETE ON attempts WHEN 1 = 1 BEGIN SELECT RAISE(ABORT,"
    " 'attempts are never deleted'); END",
    "CREATE TRIGGER the_story_is_not_rewritten BEFORE UPDATE ON story WHEN 1 = 1 BEGIN SELECT"
    " RAISE(ABORT, 'the story is never rewritten'); END",
    "CREATE TRIGGER the_story_stays BEFORE DELETE ON story WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'the"
    " story is never shortened'); END",
    "CREATE TRIGGER terms_grow BEFORE UPDATE ON lead WHEN NEW.term <= OLD.term BEGIN SELECT RAISE(ABORT,"
    " 'an earlier term'); END",
    "CREATE TRIGGER the_lead_stays BEFORE DELETE ON lead WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'terms are"
    " never forgotten'); END",
)


def upgrade() -> None:
    """Add the guards, and the tables of terms and of what is kept of nodes.

    PostgreSQL begins with this schema, so the words are SQLite's.
    """
    op.create_table(
        "node_records",
        sa.Column("node", sa.String, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "lead",
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("term", sa.Integer, nullable=False),
        sa.Column("who", sa.String, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
    )
    for guard in GUARDS:
        op.execute(guard)
