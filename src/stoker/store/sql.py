"""The store in a database: a SQLite file, or PostgreSQL.

Reads go to the database; writes go through one thread (group_commit.py). What others write into the same database is seen
within half a second, so that a server which stands by answers what is true.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.clock import Clock, SystemClock
from stoker.core.changes import Change
from stoker.core.errors import NotFound, Unavailable
from stoker.core.job import Attempt, Job
from stoker.core.node import Node, NodeRecord
from stoker.core.world import World

from . import statements as q
from .base import ALL_JOBS, Leader, Line, Listed, Which
from .databases import Database, open_database, problem_of
from .group_commit import GroupCommit, Known
from .migrate import migrate
from .rows import decode, decode_change
from .schema import attempts, jobs
from .sql_rows import SqlRows

WATCH_SECONDS = 0.5
"""How often the database is asked for what others have written."""

_END = (1 << 63) - 1
_IDS_AT_ONCE = 500
_log = logging.getLogger("stoker.store")


class SqlStore:
    """Implements Store on a database."""

    def __init__(self, where: Path | str, clock: Clock | None = None, *, upgrade: bool = True) -> None:
        """`where`: a SQLite file, or a URL. `upgrade`: bring an older schema to today's; else it is refused, Unavailable."""
        self._clock = clock or SystemClock()
        self._database = open_database(where)
        self._engine = self._database.engine
        try:
            migrate(self._database, upgrade=upgrade)
            with self._engine.connect() as db:
                self._known = Known(db.execute(q.LAST_POSITION).scalar_one())
        except sa.exc.SQLAlchemyError as error:
            self._engine.dispose()
            raise problem_of(self._database, "opened", error) from error
        except Unavailable:
            self._engine.dispose()
            raise
        self._commits = GroupCommit(self._database, self._clock, self._known)
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="store-watcher", daemon=True)
        self._watcher.start()

    @property
    def database(self) -> Database:
        """The open database, for what is kept in it beside the story."""
        return self._database

    def commit(self, changes: Sequence[Change], *, by: str, term: int | None = None) -> int:
        """Write all of the changes or none; returns when they are durable."""
        if not changes:
            return self._known.position
        return self._commits.commit(changes, by, term)

    def lead(self, who: str) -> int:
        """Take the lead: the next term."""
        since = self._clock.now()
        with self._reading() as db:
            db.exec_driver_sql(self._database.begin_write)
            if not db.execute(q.NEXT_TERM, {"leader": who, "from_now": since}).rowcount:
                db.execute(q.FIRST_TERM, {"n": 1, "term": 1, "who": who, "since": since})
            term: int = db.execute(q.LEADER).one().term
            db.commit()
        self.look()  # from now on nobody else writes: what we know is what there is
        return term

    def leader(self) -> Leader | None:
        """Who took the lead last."""
        with self._reading() as db:
            row = db.execute(q.LEADER).first()
        return Leader(term=row.term, who=row.who, since=row.since) if row else None

    def world(self) -> World:
        """A World of one's own."""
        with self._reading() as db:
            db.exec_driver_sql(self._database.begin_read)
            live_jobs = [decode(Job, body) for (body,) in db.execute(sa.select(jobs.c.body).where(jobs.c.live == 1))]
            live = [decode(Attempt, b) for (b,) in db.execute(sa.select(attempts.c.body).where(attempts.c.live == 1))]
            all_nodes = [decode(Node, body) for (body,) in db.execute(q.READ_NODES)]
            records = [decode(NodeRecord, body) for (body,) in db.execute(q.READ_RECORDS)]
            position = db.execute(q.LAST_POSITION).scalar_one()
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
        found, version = self._known.nodes, self._known.nodes_version
        if found is None:
            with self._reading() as db:
                found = [decode(Node, body) for (body,) in db.execute(q.READ_NODES)]
            self._known.keep_nodes(found, version)
        return found

    def story(self, job: str = "", after: int = 0, limit: int | None = None) -> Iterator[Line]:
        """The lines after a position."""
        most = _END if limit is None else limit
        with self._reading() as db:
            if job:
                rows = db.execute(q.STORY_OF_JOB, {"after": after, "most": most, "of": job}).all()
            else:
                rows = db.execute(q.STORY_AFTER, {"after": after, "most": most}).all()
        for row in rows:
            yield Line(n=row.n, at=row.at, by=row.by, job=row.job, change=decode_change(row.kind, row.body))

    def position(self) -> int:
        """The position of the last line; of what others write, as of half a second ago."""
        return self._known.position

    def job(self, job: str) -> Listed:
        """One job."""
        with self._reading() as db:
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
        with self._reading() as db:
            rows = db.execute(query, most).all()
        return [
            Listed(n=n, job=decode(Job, job), attempt=decode(Attempt, attempt) if attempt else None)
            for n, job, attempt in rows
        ]

    def ended(self, since: float, limit: int) -> list[Job]:
        """The jobs that ended since a moment, oldest first."""
        with self._reading() as db:
            bodies = db.execute(q.ENDED_JOBS, {"since": since, "most": limit}).scalars().all()
        return [decode(Job, body) for body in reversed(bodies)]

    def attempts(self, job: str) -> list[Attempt]:
        """Every attempt of a job, oldest first."""
        query = sa.select(attempts.c.body).where(attempts.c.job == job).order_by(attempts.c.number)
        with self._reading() as db:
            return [decode(Attempt, body) for (body,) in db.execute(query)]

    def held_since(self, since: float) -> list[tuple[Job, Attempt]]:
        """Every attempt that held machines at a moment or later, by its job's submission."""
        with self._reading() as db:
            rows = db.execute(q.HELD_SINCE, {"since": since}).all()
        found = [(decode(Job, job), decode(Attempt, attempt)) for job, attempt in rows]
        return [(job, a) for job, a in found if a.ended_at is None or a.ended_at > since]

    def attempt(self, attempt: str) -> Attempt:
        """One attempt."""
        with self._reading() as db:
            return SqlRows(db).read_attempt(attempt)

    def unknown_jobs(self, jobs: Collection[str]) -> set[str]:
        """The ids that no job ever had."""
        return self._unknown(q.KNOWN_JOBS, jobs)

    def unknown_attempts(self, attempts: Collection[str]) -> set[str]:
        """The ids that no attempt ever had."""
        return self._unknown(q.KNOWN_ATTEMPTS, attempts)

    def _unknown(self, known: sa.Select[tuple[str]], ids: Collection[str]) -> set[str]:
        left, of_all = set(ids), iter(ids)
        with self._reading() as db:
            while some := list(islice(of_all, _IDS_AT_ONCE)):
                left.difference_update(db.execute(known, {"ids": some}).scalars())
        return left

    def last_moment(self) -> float:
        """When the last line was written."""
        with self._reading() as db:
            return float(db.execute(q.LAST_MOMENT).scalar() or 0.0)

    def listen(self, ring: Callable[[int], None]) -> None:
        """Call `ring` after every commit, and when others have written."""
        self._known.listeners.append(ring)

    def look(self) -> None:
        """Take note of what others have written. Raises Unavailable."""
        with self._reading() as db:
            found: int = db.execute(q.LAST_POSITION).scalar_one()
        if found > self._known.position:
            self._known.advance(found, nodes_changed=True)
            self._known.ring()

    def close(self) -> None:
        """Write what is pending and let go of the files."""
        if not self._closed.is_set():
            self._closed.set()
            self._watcher.join()
            self._commits.close()
            self._engine.dispose()

    def _watch(self) -> None:
        failed = False
        while not self._closed.wait(WATCH_SECONDS):
            try:
                self.look()
                failed = False
            except Exception as error:  # it is asked again
                if not failed:
                    _log.error("%s", error)
                failed = True

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as db:
                yield db
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:  # the latter: all connections hang
            raise problem_of(self._database, "read", error) from error


def _listed(db: Connection, n: int, job: Job) -> Listed:
    """The job with its newest attempt, which has the number of its tries."""
    if not job.tries:
        return Listed(n=n, job=job, attempt=None)
    body = db.execute(q.READ_TRY, {"of": job.id, "try_number": job.tries}).scalar_one()
    return Listed(n=n, job=job, attempt=decode(Attempt, body))
