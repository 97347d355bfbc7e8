"""What the database refuses whoever asks: a second server, an older Stoker, somebody with a shell. Triggers, in both dialects."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import DDL, MetaData, event

from .databases import WRITE_LOCK

_STATES = "('QUEUED', 'ACTIVE', 'SUCCEEDED', 'FAILED', 'CANCELLED')"
_FINAL = "('SUCCEEDED', 'FAILED', 'CANCELLED')"
_LIVE = f"NEW.state NOT IN {_STATES} OR NEW.live <> CASE WHEN NEW.state IN {_FINAL} THEN 0 ELSE 1 END"
_FINAL_MOVES = (
    "NEW.state <> OLD.state OR NEW.tries <> OLD.tries OR coalesce(NEW.ended_at, 0) <> coalesce(OLD.ended_at, 0)"
)


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that is refused."""

    name: str
    table: str
    event: str
    when: str  # of the row: OLD as it is, NEW as it would be
    message: str

    def sqlite(self) -> str:
        """The trigger in SQLite's words."""
        return (
            f"CREATE TRIGGER {self.name} BEFORE {self.event} ON {self.table}"
            f" WHEN {self.when} BEGIN SELECT RAISE(ABORT, '{self.message}'); END"
        )

    def postgresql(self) -> str:
        """The trigger in PostgreSQL's words. The write lock first: what another writes meanwhile is waited for, and seen."""
        row = "OLD" if self.event == "DELETE" else "NEW"
        return (
            f"CREATE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" PERFORM pg_advisory_xact_lock({WRITE_LOCK});"
            f" IF ({self.when}) THEN RAISE EXCEPTION '{self.message}' USING ERRCODE = 'integrity_constraint_violation';"
            f" END IF; RETURN {row}; END $$; {self.postgresql_trigger()}"
        )

    def postgresql_trigger(self) -> str:
        """The trigger that calls the guard's function."""
        return (
            f"CREATE TRIGGER {self.name} BEFORE {self.event} ON {self.table}"
            f" FOR EACH ROW EXECUTE FUNCTION {self.name}()"
        )


GUARDS = (
    # P3: a device is never held twice, nor in shares that are more than the whole.
    Guard(
        "a_device_is_held_once",
        "holdings",
        "INSERT",
        "NEW.milli + (SELECT coalesce(sum(milli), 0) FROM holdings"
        " WHERE node = NEW.node AND device = NEW.device) > 1000",
        "the device is held",
    ),
    Guard("holdings_stay_as_they_are", "holdings", "UPDATE", "1 = 1", "what is held is released, never changed"),
    # A state is one of the table, and `live` says the same.
    Guard("a_job_begins_in_a_state", "jobs", "INSERT", _LIVE, "no such state of a job"),
    Guard("a_job_is_in_a_state", "jobs", "UPDATE", _LIVE, "no such state of a job"),
    Guard(
        "an_ended_job_stays_so",
        "jobs",
        "UPDATE",
        f"OLD.state IN {_FINAL} AND ({_FINAL_MOVES})",
        "the job has ended",
    ),
    Guard(
        "a_job_stays_itself",
        "jobs",
        "UPDATE",
        "NEW.n <> OLD.n OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.tries < OLD.tries",
        "the job would become another one",
    ),
    Guard("a_job_stays", "jobs", "DELETE", "1 = 1", "jobs are hidden, never deleted"),
    # A job has ended after its attempts, and begins no other.
    Guard(
        "a_job_outlives_its_attempts",
        "jobs",
        "UPDATE",
        "NEW.live = 0 AND EXISTS (SELECT 1 FROM attempts WHERE job = NEW.id AND live = 1)",
        "an attempt of the job lives",
    ),
    Guard(
        "an_attempt_is_of_a_live_job",
        "attempts",
        "INSERT",
        "NEW.live <> 1 OR NOT EXISTS (SELECT 1 FROM jobs WHERE id = NEW.job AND live = 1)",
        "there is no live job for the attempt",
    ),
    Guard(
        "an_ended_attempt_stays_so",
        "attempts",
        "UPDATE",
        "NEW.live NOT IN (0, 1) OR NEW.live > OLD.live OR NEW.id <> OLD.id OR NEW.job <> OLD.job"
        " OR NEW.number <> OLD.number",
        "the attempt has ended, or would become another one",
    ),
    Guard("an_attempt_stays", "attempts", "DELETE", "1 = 1", "attempts are never deleted"),
    # The story is only added to.
    Guard("the_story_is_not_rewritten", "story", "UPDATE", "1 = 1", "the story is never rewritten"),
    Guard("the_story_stays", "story", "DELETE", "1 = 1", "the story is never shortened"),
    # Who took the lead last has the highest term.
    Guard("terms_grow", "lead", "UPDATE", "NEW.term <= OLD.term", "an earlier term"),
    Guard("the_lead_stays", "lead", "DELETE", "1 = 1", "terms are never forgotten"),
)


def add_guards(metadata: MetaData) -> None:
    """Let the tables be made with their guards."""
    for guard in GUARDS:
        for dialect, text in (("sqlite", guard.sqlite()), ("postgresql", guard.postgresql())):
            made = DDL(text.replace("%", "%%")).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
            event.listen(metadata, "after_create", made)
