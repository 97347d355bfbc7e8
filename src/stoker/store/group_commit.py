"""Many commits, one fsync.

One thread writes. Whoever commits hands it a batch and waits; it takes all batches that are waiting, writes each inside a
savepoint of one transaction, and so many callers share one fsync (group commit). What is acknowledged survives a power cut.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.clock import Clock
from stoker.core.changes import Change, NodeGone, NodeSeen, job_of
from stoker.core.errors import Deposed, IllegalMove, StokerError, Unavailable
from stoker.core.node import Node

from . import statements as q
from .databases import Database, problem_of
from .rows import encode
from .sql_rows import SqlRows
from .write import write

_LARGEST_BATCH = 256


class Known:
    """What a store knows without asking its database: where the story stands, the nodes, and who listens."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.nodes: list[Node] | None = None
        self.nodes_version = 0
        self.listeners: list[Callable[[int], None]] = []
        self._lock = threading.Lock()

    def advance(self, position: int, *, nodes_changed: bool) -> None:
        """The story has grown."""
        with self._lock:
            self.position = max(self.position, position)
            if nodes_changed:
                self.nodes, self.nodes_version = None, self.nodes_version + 1

    def keep_nodes(self, nodes: list[Node], version: int) -> None:
        """Keep what was read, unless they have changed since a version."""
        with self._lock:
            if version == self.nodes_version:
                self.nodes = nodes

    def ring(self) -> None:
        """Tell all who listen."""
        for ring in self.listeners:
            ring(self.position)


class _Batch:
    """What one caller wants written, and where it waits for the answer."""

    __slots__ = ("by", "changes", "done", "error", "term")

    def __init__(self, changes: Sequence[Change], by: str, term: int | None) -> None:
        self.changes = changes
        self.by = by
        self.term = term
        self.done: Future[int] = Future()
        self.error: Exception | None = None


class GroupCommit:
    """The thread that writes. Safe to call from any other."""

    def __init__(self, database: Database, clock: Clock, known: Known) -> None:
        self._database = database
        self._clock = clock
        self._known = known
        self._closed = False
        self._waiting: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_for_ever, name="store-writer", daemon=True)
        self._writer.start()

    def commit(self, changes: Sequence[Change], by: str, term: int | None) -> int:
        """Write all of the changes or none. Returns the story's position when they are durable."""
        if self._closed:
            raise Unavailable("the store is closed")
        batch = _Batch(changes, by, term)
        self._waiting.put(batch)
        if self._closed and not self._writer.is_alive():
            self._refuse_what_is_left()
        return batch.done.result()

    def close(self) -> None:
        """Write what is pending, and end."""
        self._closed = True
        self._waiting.put(None)
        self._writer.join()
        self._refuse_what_is_left()

    def _refuse_what_is_left(self) -> None:
        """What came in the last moment, behind the end, is answered too."""
        try:
            while True:
                batch = self._waiting.get_nowait()
                if batch is not None:
                    batch.done.set_exception(Unavailable("the store is closed"))
        except queue.Empty:
            pass

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
            found = [batch for batch in batches if batch is not None]
            if found:
                self._write(found)

    def _write(self, batches: Sequence[_Batch]) -> None:
        """One transaction for all; each batch stands or falls alone. Nobody hears of success before the commit."""
        before, position = self._known.position, 0
        try:
            with self._database.engine.connect() as db:
                db.exec_driver_sql(self._database.begin_write)
                standing = db.execute(q.STANDING).one()
                is_followed = standing.position == before  # nobody else has written since we last did
                position = standing.position
                for batch in batches:
                    position = self._write_one(db, batch, position, standing.term)
                db.commit()
        except Exception as error:  # whatever it is: everybody who waits gets an answer, and the thread lives on
            problem = problem_of(self._database, "written", error)
            for batch in batches:
                batch.error = batch.error or problem
        else:
            news = any(isinstance(change, NodeSeen | NodeGone) for batch in batches for change in batch.changes)
            self._known.advance(position, nodes_changed=news or not is_followed)
        for batch in batches:
            if batch.error is not None:
                batch.done.set_exception(batch.error)
            else:
                batch.done.set_result(self._known.position)
        self._known.ring()

    def _write_one(self, db: Connection, batch: _Batch, position: int, term: int) -> int:
        """Write a batch that follows a position, in a term. Returns the position after it."""
        if batch.term is not None and batch.term != term:
            batch.error = Deposed(
                f"another server leads: this is term {term}, and what term {batch.term} decided is old"
            )
            return position
        db.exec_driver_sql("SAVEPOINT batch")
        try:
            rows = SqlRows(db)
            for change in batch.changes:
                write(rows, change)
            rows.flush()
            now = self._clock.now()
            db.execute(
                q.ADD_LINES,
                [
                    {"n": n, "at": now, "by": batch.by, "job": job_of(c), "kind": type(c).__name__, "body": encode(c)}
                    for n, c in enumerate(batch.changes, start=position + 1)
                ],
            )
            db.exec_driver_sql("RELEASE SAVEPOINT batch")
            return position + len(batch.changes)
        except (
            sa.exc.IntegrityError,
            sa.exc.DataError,
        ) as error:  # a guard of the database, or a text that it cannot hold
            batch.error = IllegalMove(f"the database refuses it: {str(error.orig).strip().splitlines()[0]}")
        except sa.exc.SQLAlchemyError:
            raise  # the database itself: nobody of this transaction can be served
        except Exception as error:
            batch.error = error if isinstance(error, StokerError) else StokerError(f"it cannot be written: {error}")
        db.exec_driver_sql("ROLLBACK TO SAVEPOINT batch")
        db.exec_driver_sql("RELEASE SAVEPOINT batch")
        return position
