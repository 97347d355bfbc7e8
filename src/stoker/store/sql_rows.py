"""The rows of the database, as one batch of changes reads and writes them."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.core.errors import AlreadyExists, IllegalMove, NotFound
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.node import Node, NodeRecord
from stoker.core.states import FINAL_JOB_STATES, AttemptState

from . import statements as q
from .rows import decode, encode


class SqlRows:
    """Implements Rows within one batch: each is read once, and what became of it is written when the batch is through."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._jobs: dict[str, Job] = {}
        self._attempts: dict[str, Attempt] = {}
        self._changed_jobs: dict[str, Job] = {}
        self._changed_attempts: dict[str, Attempt] = {}

    def flush(self) -> None:
        """Write what has been changed."""
        self._flush_attempts()  # a job ends after its attempts
        if self._changed_jobs:
            self._db.execute(q.UPDATE_JOB, [_job_row(job) for job in self._changed_jobs.values()])
            self._changed_jobs.clear()

    def _flush_attempts(self) -> None:
        if self._changed_attempts:
            self._db.execute(q.UPDATE_ATTEMPT, [_attempt_row(attempt) for attempt in self._changed_attempts.values()])
            self._changed_attempts.clear()

    def read_job(self, job: str) -> Job:
        """One job."""
        found = self._jobs.get(job)
        if found is None:
            row = self._db.execute(q.READ_JOB, {"job": job}).first()
            if row is None:
                raise NotFound(f"no job {job}")
            found = self._jobs[job] = decode(Job, row.body)
        return found

    def insert_job(self, job: Job) -> None:
        """A new one."""
        row = {"id": job.id, "project": split_job_id(job.id)[0], "live": 1, "hidden": 0, "body": encode(job)}
        row |= {"dialect": job.request.dialect, "state": str(job.state), "tries": job.tries}
        try:
            self._db.execute(q.ADD_JOB, row)
        except sa.exc.IntegrityError:
            raise AlreadyExists(f"there is a job {job.id} already") from None

    def update_job(self, job: Job) -> None:
        """What became of it."""
        self._jobs[job.id] = self._changed_jobs[job.id] = job

    def hide_job(self, job: str) -> None:
        """It is forgotten."""
        self.flush()
        self._jobs.pop(job, None)
        self._db.execute(q.HIDE_JOB, {"job": job})

    def read_attempt(self, attempt: str) -> Attempt:
        """One attempt."""
        found = self._attempts.get(attempt)
        if found is None:
            body = self._db.execute(q.READ_ATTEMPT, {"attempt": attempt}).scalar()
            if body is None:
                raise NotFound(f"no attempt {attempt}")
            found = self._attempts[attempt] = decode(Attempt, body)
        return found

    def insert_attempt(self, attempt: Attempt) -> None:
        """A new one."""
        self._flush_attempts()  # the one before it may have ended just now
        row = {
            "id": attempt.id,
            "job": attempt.job,
            "number": attempt.number,
            "live": 1,
            "body": encode(attempt),
        }
        try:
            self._db.execute(q.ADD_ATTEMPT, row)
        except sa.exc.IntegrityError:
            raise IllegalMove(f"{attempt.job} has a live attempt already") from None

    def update_attempt(self, attempt: Attempt) -> None:
        """What became of it."""
        self._attempts[attempt.id] = self._changed_attempts[attempt.id] = attempt

    def hold(self, attempt: str, devices: Iterable[tuple[str, str]], milli: int) -> None:
        """So much of each device, for an attempt."""
        rows = [{"node": node, "device": device, "attempt": attempt, "milli": milli} for node, device in devices]
        try:
            self._db.execute(q.HOLD, rows)
        except sa.exc.IntegrityError:
            raise IllegalMove(f"a device that {attempt} was to get is held already") from None

    def release(self, attempt: str) -> None:
        """All that an attempt holds."""
        self._db.execute(q.RELEASE, {"holder": attempt})

    def put_node(self, node: Node) -> None:
        """A node, as it is now."""
        self.delete_node(node.name)
        self._db.execute(q.ADD_NODE, {"name": node.name, "body": encode(node)})

    def delete_node(self, name: str) -> None:
        """It is gone."""
        self._db.execute(q.DROP_NODE, {"node_name": name})

    def read_record(self, node: str) -> NodeRecord | None:
        """What is kept of a node; None: nothing."""
        body = self._db.execute(q.READ_RECORD, {"of_node": node}).scalar()
        return None if body is None else decode(NodeRecord, body)

    def put_record(self, node: str, record: NodeRecord | None) -> None:
        """What is to be kept of a node; None: nothing."""
        self._db.execute(q.DROP_RECORD, {"of_node": node})
        if record is not None:
            self._db.execute(q.ADD_RECORD, {"node": node, "body": encode(record)})


def _job_row(job: Job) -> dict[str, object]:
    live = int(job.state not in FINAL_JOB_STATES)
    row = {"job": job.id, "is_live": live, "new_body": encode(job)}
    return row | {"new_state": str(job.state), "new_tries": job.tries, "new_ended_at": job.ended_at}


def _attempt_row(attempt: Attempt) -> dict[str, object]:
    live = int(attempt.state is not AttemptState.ENDED)
    return {"the_attempt": attempt.id, "is_live": live, "new_body": encode(attempt)}
