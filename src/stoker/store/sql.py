"""The store in a database: SQLite in WAL mode, embedded.

One thread writes. Whoever commits hands it a batch and waits; it takes all batches that are waiting, writes each inside a
savepoint of one transaction, and so many callers share one fsync (group commit). `synchronous=FULL`: what is acknowledged
survives a power cut.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from stoker.clock import Clock, SystemClock
from stoker.core.changes import Change, NodeGone, NodeSeen, job_of
from stoker.core.errors import AlreadyExists, IllegalMove, NotFound, StokerError, Unavailable
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.node import Node, NodeRecord
from stoker.core.states import FINAL_JOB_STATES, AttemptState
from stoker.core.world import World

from . import statements as q
from .base import ALL_JOBS, Line, Listed, Which
from .migrate import migrate
from .rows import decode, decode_change, encode
from .schema import attempts, jobs
from .write import write

_LARGEST_BATCH = 256
_END = (1 << 63) - 1


class SqlStore:
    """Implements Store on a SQLite file."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._engine = _engine(path)
        migrate(self._engine)
        self._listeners: list[Callable[[int], None]] = []
        self._waiting: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._position = self._read_position()
        self._nodes: list[Node] | None = None
        self._nodes_version = 0
        self._closed = False
        self._writer = threading.Thread(target=self._write_for_ever, name="store-writer", daemon=True)
        self._writer.start()

    def commit(self, changes: Sequence[Change], *, by: str) -> int:
        """Write all of the changes or none; returns when they are durable."""
        if not changes:
            return self._position
        if self._closed:
            raise Unavailable("the store is closed")
        batch = _Batch(changes, by)
        self._waiting.put(batch)
        return batch.done.result()

    def world(self) -> World:
        """A World of one's own."""
        with self._engine.connect() as db:
            db.exec_driver_sql("BEGIN")  # one snapshot for all of it
            live_jobs = [decode(Job, body) for (body,) in db.execute(sa.select(jobs.c.body).where(jobs.c.live == 1))]
            live = [decode(Attempt, b) for (b,) in db.execute(sa.select(attempts.c.body).where(attempts.c.live == 1))]
            all_nodes = [decode(Node, body) for (body,) in db.execute(q.READ_NODES)]
            records = [decode(NodeRecord, body) for (body,) in db.execute(q.READ_RECORDS)]
            position = db.execute(q.LAST_POSITION).scalar_one() or 0
        return World(
            jobs={job.id: job for job in live_jobs},
            attempts={attempt.id: attempt for attempt in live},
            attempt_of={attempt.job: attempt.id for attempt in live},
            nodes={node.name: node for node in all_nodes},
            records={record.node: record for record in records},
            position=position,
        )

    def nodes(self) -> list[Node]:
        """The nodes. Every submission asks, and they seldom change, so they are kept."""
        found, version = self._nodes, self._nodes_version
        if found is None:
            with self._engine.connect() as db:
                found = [decode(Node, body) for (body,) in db.execute(q.READ_NODES)]
            if version == self._nodes_version:  # else they changed while we read
                self._nodes = found
        return found

    def story(self, job: str = "", after: int = 0, limit: int | None = None) -> Iterator[Line]:
        """The lines after a position."""
        most = -1 if limit is None else limit
        with self._engine.connect() as db:
            if job:
                rows = db.execute(q.STORY_OF_JOB, {"after": after, "most": most, "of": job}).all()
            else:
                rows = db.execute(q.STORY_AFTER, {"after": after, "most": most}).all()
        for row in rows:
            yield Line(n=row.n, at=row.at, by=row.by, job=row.job, change=decode_change(row.kind, row.body))

    def position(self) -> int:
        """The position of the last line."""
        return self._position

    def job(self, job: str) -> Listed:
        """One job."""
        with self._engine.connect() as db:
            row = db.execute(q.READ_JOB, {"job": job}).first()
            if row is None:
                raise NotFound(f"no job {job}")
            return _listed(db, row.n, decode(Job, row.body))

    def jobs(
        self, project: str, *, before: int | None = None, limit: int = 100, which: Which = ALL_JOBS
    ) -> list[Listed]:
        """The jobs of a project, newest first."""
        query = q.LIST_JOBS
        if which.dialect:
            query = query.where(jobs.c.dialect == which.dialect)
        if which.states is not None:
            query = query.where(jobs.c.state.in_(sorted(which.states)))
        if which.prefix:
            query = query.where(jobs.c.id >= f"{project}/{which.prefix}", jobs.c.id < f"{project}/{which.prefix}\x7f")
        most = {"of_project": project, "before": _END if before is None else before, "most": limit}
        with self._engine.connect() as db:
            rows = db.execute(query, most).all()
        return [
            Listed(n=n, job=decode(Job, job), attempt=decode(Attempt, attempt) if attempt else None)
            for n, job, attempt in rows
        ]

    def ended(self, since: float, limit: int) -> list[Job]:
        """The jobs that ended since a moment, oldest first."""
        with self._engine.connect() as db:
            bodies = db.execute(q.ENDED_JOBS, {"since": since, "most": limit}).scalars().all()
        return [decode(Job, body) for body in reversed(bodies)]

    def attempts(self, job: str) -> list[Attempt]:
        """Every attempt of a job, oldest first."""
        query = sa.select(attempts.c.body).where(attempts.c.job == job).order_by(attempts.c.number)
        with self._engine.connect() as db:
            return [decode(Attempt, body) for (body,) in db.execute(query)]

    def attempt(self, attempt: str) -> Attempt:
        """One attempt."""
        with self._engine.connect() as db:
            return _Rows(db).read_attempt(attempt)

    def listen(self, ring: Callable[[int], None]) -> None:
        """Call `ring` after every commit."""
        self._listeners.append(ring)

    def close(self) -> None:
        """Write what is pending and let go of the files."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
            self._writer.join()
            self._engine.dispose()

    def _read_position(self) -> int:
        with self._engine.connect() as db:
            return db.execute(q.LAST_POSITION).scalar_one() or 0

    def _write_for_ever(self) -> None:
        open_for_work = True
        while open_for_work:
            batches = [self._waiting.get()]
            while len(batches) < _LARGEST_BATCH:
                try:
                    batches.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            open_for_work = None not in batches
            self._write([batch for batch in batches if batch is not None])

    def _write(self, batches: Sequence[_Batch]) -> None:
        """One transaction for all; each batch stands or falls alone. Nobody hears of success before the commit."""
        written: list[_Batch] = []
        try:
            with self._engine.connect() as db:
                db.exec_driver_sql("BEGIN IMMEDIATE")
                for batch in batches:
                    self._write_one(db, batch)
                    written.append(batch)
                db.commit()
                self._position = db.execute(q.LAST_POSITION).scalar_one() or 0
        except Exception as error:  # whatever it is: everybody who waits gets an answer, and the thread lives on
            problem = Unavailable(
                f"the database cannot be written: {getattr(error, 'orig', error)}",
                fix="free some disk space under $STOKER_HOME; nothing that was accepted is lost",
            )
            for batch in batches:
                batch.error = batch.error or problem
        if any(isinstance(change, NodeSeen | NodeGone) for batch in batches for change in batch.changes):
            self._nodes, self._nodes_version = None, self._nodes_version + 1
        for batch in batches:
            if batch.error is not None:
                batch.done.set_exception(batch.error)
            else:
                batch.done.set_result(self._position)
        for ring in self._listeners:
            ring(self._position)

    def _write_one(self, db: Connection, batch: _Batch) -> None:
        db.exec_driver_sql("SAVEPOINT batch")
        try:
            rows = _Rows(db)
            for change in batch.changes:
                write(rows, change)
            rows.flush()
            now = self._clock.now()
            db.execute(
                q.ADD_LINES,
                [
                    {"at": now, "by": batch.by, "job": job_of(c), "kind": type(c).__name__, "body": encode(c)}
                    for c in batch.changes
                ],
            )
            db.exec_driver_sql("RELEASE batch")
        except sa.exc.SQLAlchemyError:
            raise  # the database itself: nobody of this transaction can be served
        except Exception as error:
            db.exec_driver_sql("ROLLBACK TO batch")
            db.exec_driver_sql("RELEASE batch")
            batch.error = error if isinstance(error, StokerError) else StokerError(f"it cannot be written: {error}")


class _Batch:
    """What one caller wants written, and where it waits for the answer."""

    __slots__ = ("by", "changes", "done", "error")

    def __init__(self, changes: Sequence[Change], by: str) -> None:
        self.changes = changes
        self.by = by
        self.done: Future[int] = Future()
        self.error: Exception | None = None


class _Rows:
    """The rows, within one batch: each is read once, and what became of it is written when the batch is through."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._jobs: dict[str, Job] = {}
        self._attempts: dict[str, Attempt] = {}
        self._changed_jobs: dict[str, Job] = {}
        self._changed_attempts: dict[str, Attempt] = {}

    def flush(self) -> None:
        """Write what has been changed."""
        if self._changed_jobs:
            self._db.execute(q.UPDATE_JOB, [_job_row(job) for job in self._changed_jobs.values()])
            self._changed_jobs.clear()
        self._flush_attempts()

    def _flush_attempts(self) -> None:
        if self._changed_attempts:
            self._db.execute(q.UPDATE_ATTEMPT, [_attempt_row(attempt) for attempt in self._changed_attempts.values()])
            self._changed_attempts.clear()

    def read_job(self, job: str) -> Job:
        found = self._jobs.get(job)
        if found is None:
            row = self._db.execute(q.READ_JOB, {"job": job}).first()
            if row is None:
                raise NotFound(f"no job {job}")
            found = self._jobs[job] = decode(Job, row.body)
        return found

    def insert_job(self, job: Job) -> None:
        row = {"id": job.id, "project": split_job_id(job.id)[0], "live": 1, "hidden": 0, "body": encode(job)}
        row |= {"dialect": job.request.dialect, "state": str(job.state), "tries": job.tries}
        try:
            self._db.execute(q.ADD_JOB, row)
        except sa.exc.IntegrityError:
            raise AlreadyExists(f"there is a job {job.id} already") from None

    def update_job(self, job: Job) -> None:
        self._jobs[job.id] = self._changed_jobs[job.id] = job

    def hide_job(self, job: str) -> None:
        self.flush()
        self._jobs.pop(job, None)
        self._db.execute(q.HIDE_JOB, {"job": job})

    def read_attempt(self, attempt: str) -> Attempt:
        found = self._attempts.get(attempt)
        if found is None:
            body = self._db.execute(q.READ_ATTEMPT, {"attempt": attempt}).scalar()
            if body is None:
                raise NotFound(f"no attempt {attempt}")
            found = self._attempts[attempt] = decode(Attempt, body)
        return found

    def insert_attempt(self, attempt: Attempt) -> None:
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
        self._attempts[attempt.id] = self._changed_attempts[attempt.id] = attempt

    def hold(self, attempt: str, devices: Iterable[tuple[str, str]], milli: int) -> None:
        rows = [{"node": node, "device": device, "attempt": attempt, "milli": milli} for node, device in devices]
        try:
            self._db.execute(q.HOLD, rows)
        except sa.exc.IntegrityError:
            raise IllegalMove(f"a device that {attempt} was to get is held already") from None

    def release(self, attempt: str) -> None:
        self._db.execute(q.RELEASE, {"holder": attempt})

    def put_node(self, node: Node) -> None:
        self.delete_node(node.name)
        self._db.execute(q.ADD_NODE, {"name": node.name, "body": encode(node)})

    def delete_node(self, name: str) -> None:
        self._db.execute(q.DROP_NODE, {"node_name": name})

    def read_record(self, node: str) -> NodeRecord | None:
        body = self._db.execute(q.READ_RECORD, {"of_node": node}).scalar()
        return None if body is None else decode(NodeRecord, body)

    def put_record(self, node: str, record: NodeRecord | None) -> None:
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


def _listed(db: Connection, n: int, job: Job) -> Listed:
    """The job with its newest attempt, which has the number of its tries."""
    if not job.tries:
        return Listed(n=n, job=job, attempt=None)
    body = db.execute(q.READ_TRY, {"of": job.id, "try_number": job.tries}).scalar_one()
    return Listed(n=n, job=job, attempt=decode(Attempt, body))


def _engine(path: Path) -> Engine:
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # we say BEGIN ourselves
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")  # type: ignore[attr-defined]

    return engine
