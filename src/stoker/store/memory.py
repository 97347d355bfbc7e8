"""The store that forgets: everything in dictionaries. For tests and the simulator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.clock import Clock, SystemClock
from stoker.core.changes import Change, job_of
from stoker.core.errors import AlreadyExists, Deposed, IllegalMove, NotFound
from stoker.core.job import Attempt, Job
from stoker.core.node import Node, NodeRecord
from stoker.core.spec import WHOLE_DEVICE_MILLI
from stoker.core.states import FINAL_JOB_STATES, AttemptState
from stoker.core.world import World

from .base import ALL_JOBS, Leader, Line, Listed, Which
from .write import write

_ABSENT = object()
_Table = dict[Any, Any]


@dataclass(slots=True)
class _Tables:
    """The rows, and how to undo what the commit that is going on has done to them."""

    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    records: dict[str, NodeRecord] = field(default_factory=dict)
    held: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)  # device → attempt → milli of it
    holdings: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # attempt → its devices
    live: dict[str, str] = field(default_factory=dict)  # job → its live attempt
    hidden: dict[str, None] = field(default_factory=dict)  # jobs that are forgotten
    undo: list[tuple[_Table, Any, Any]] = field(default_factory=list)

    def put(self, table: _Table, key: Any, value: Any) -> None:
        """Set a row, or drop it (_ABSENT)."""
        self.undo.append((table, key, table.get(key, _ABSENT)))
        _set(table, key, value)

    def roll_back(self) -> None:
        while self.undo:
            _set(*self.undo.pop())

    def read_job(self, job: str) -> Job:
        if job not in self.jobs or job in self.hidden:
            raise NotFound(f"no job {job}")
        return self.jobs[job]

    def insert_job(self, job: Job) -> None:
        if job.id in self.jobs:
            raise AlreadyExists(f"there is a job {job.id} already")
        self.put(self.jobs, job.id, job)

    def update_job(self, job: Job) -> None:
        self.put(self.jobs, job.id, job)

    def hide_job(self, job: str) -> None:
        self.put(self.hidden, job, None)

    def read_attempt(self, attempt: str) -> Attempt:
        if attempt not in self.attempts:
            raise NotFound(f"no attempt {attempt}")
        return self.attempts[attempt]

    def insert_attempt(self, attempt: Attempt) -> None:
        if attempt.job in self.live:
            raise IllegalMove(f"{attempt.job} has a live attempt already")
        self.put(self.attempts, attempt.id, attempt)
        self.put(self.live, attempt.job, attempt.id)

    def update_attempt(self, attempt: Attempt) -> None:
        self.put(self.attempts, attempt.id, attempt)
        if attempt.state is AttemptState.ENDED:
            self.put(self.live, attempt.job, _ABSENT)

    def hold(self, attempt: str, devices: Iterable[tuple[str, str]], milli: int) -> None:
        taken = tuple(devices)
        for device in taken:
            holders = self.held.get(device, {})
            if sum(holders.values()) + milli > WHOLE_DEVICE_MILLI:
                raise IllegalMove(f"device {device[1]} of {device[0]} is held by {', '.join(sorted(holders))}")
            self.put(self.held, device, {**holders, attempt: holders.get(attempt, 0) + milli})
        self.put(self.holdings, attempt, self.holdings.get(attempt, ()) + taken)

    def release(self, attempt: str) -> None:
        for device in self.holdings.get(attempt, ()):
            left = {holder: milli for holder, milli in self.held.get(device, {}).items() if holder != attempt}
            self.put(self.held, device, left or _ABSENT)
        self.put(self.holdings, attempt, _ABSENT)

    def put_node(self, node: Node) -> None:
        self.put(self.nodes, node.name, node)

    def delete_node(self, name: str) -> None:
        self.put(self.nodes, name, _ABSENT)

    def read_record(self, node: str) -> NodeRecord | None:
        return self.records.get(node)

    def put_record(self, node: str, record: NodeRecord | None) -> None:
        self.put(self.records, node, _ABSENT if record is None else record)


def _set(table: _Table, key: Any, value: Any) -> None:
    if value is _ABSENT:
        table.pop(key, None)
    else:
        table[key] = value


class MemoryStore:
    """Implements Store."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._tables = _Tables()
        self._lines: list[Line] = []
        self._listeners: list[Callable[[int], None]] = []
        self._leader: Leader | None = None

    def commit(self, changes: Sequence[Change], *, by: str, term: int | None = None) -> int:
        """Write all of the changes or none."""
        with self._lock:
            if term is not None and (self._leader is None or term != self._leader.term):
                raise Deposed
            tables = self._tables
            try:
                for change in changes:
                    write(tables, change)
            except Exception:
                tables.roll_back()
                raise
            tables.undo.clear()
            for change in changes:
                n = len(self._lines) + 1
                self._lines.append(Line(n=n, at=self._clock.now(), by=by, job=job_of(change), change=change))
            position = len(self._lines)
        for ring in self._listeners:
            ring(position)
        return position

    def lead(self, who: str) -> int:
        """Take the lead: the next term."""
        with self._lock:
            term = self._leader.term + 1 if self._leader else 1
            self._leader = Leader(term=term, who=who, since=self._clock.now())
            return term

    def leader(self) -> Leader | None:
        """Who took the lead last."""
        return self._leader

    def world(self) -> World:
        """A World of one's own."""
        with self._lock:
            jobs = {id: job for id, job in self._tables.jobs.items() if job.state not in FINAL_JOB_STATES}
            attempts = {id: self._tables.attempts[id] for id in self._tables.live.values()}
            return World(
                jobs=jobs,
                attempts=attempts,
                attempt_of={a.job: a.id for a in attempts.values()},
                nodes=dict(self._tables.nodes),
                records=dict(self._tables.records),
                position=len(self._lines),
            )

    def nodes(self) -> list[Node]:
        """The nodes."""
        with self._lock:
            return list(self._tables.nodes.values())

    def story(self, job: str = "", after: int = 0, limit: int | None = None) -> Iterator[Line]:
        """The lines after a position."""
        with self._lock:
            lines = [line for line in self._lines[after:] if not job or line.job == job]
        return iter(lines[:limit])

    def position(self) -> int:
        """The position of the last line."""
        return len(self._lines)

    def job(self, job: str) -> Listed:
        """One job."""
        with self._lock:
            return self._listed(self._tables.read_job(job))

    def row(self, job: str) -> Job:
        """The job alone, found at once."""
        return self._tables.read_job(job)

    def jobs(
        self, project: str, *, before: int | None = None, limit: int = 100, which: Which = ALL_JOBS
    ) -> list[Listed]:
        """The jobs of a project, newest first."""
        with self._lock:
            tables = self._tables
            found = [
                self._listed(j) for j in tables.jobs.values() if j.id not in tables.hidden and _is(j, project, which)
            ]
        found = [listed for listed in reversed(found) if before is None or listed.n < before]
        return found[:limit]

    def ended(self, since: float, limit: int) -> list[Job]:
        """The jobs that ended since a moment, oldest first."""
        with self._lock:
            found = [job for job in self._tables.jobs.values() if job.ended_at is not None and job.ended_at >= since]
        return sorted(found, key=lambda job: (job.ended_at or 0.0, job.id))[-limit:]

    def attempts(self, job: str) -> list[Attempt]:
        """Every attempt of a job, oldest first."""
        with self._lock:
            return [a for a in self._tables.attempts.values() if a.job == job]

    def held_since(self, since: float) -> list[tuple[Job, Attempt]]:
        """Every attempt that held machines at a moment or later, by its job's submission."""
        with self._lock:
            order = {job: n for n, job in enumerate(self._tables.jobs)}
            jobs, attempts = dict(self._tables.jobs), list(self._tables.attempts.values())
        found = [(jobs[a.job], a) for a in attempts if a.ended_at is None or a.ended_at > since]
        return sorted(found, key=lambda pair: (order[pair[0].id], pair[1].number))

    def attempt(self, attempt: str) -> Attempt:
        """One attempt."""
        with self._lock:
            return self._tables.read_attempt(attempt)

    def unknown_jobs(self, jobs: Collection[str]) -> set[str]:
        """The ids that no job ever had."""
        with self._lock:
            return {job for job in jobs if job not in self._tables.jobs}

    def unknown_attempts(self, attempts: Collection[str]) -> set[str]:
        """The ids that no attempt ever had."""
        with self._lock:
            return {attempt for attempt in attempts if attempt not in self._tables.attempts}

    def last_moment(self) -> float:
        """When the last line was written."""
        with self._lock:
            return self._lines[-1].at if self._lines else 0.0

    def listen(self, ring: Callable[[int], None]) -> None:
        """Call `ring` after every commit."""
        self._listeners.append(ring)

    def close(self) -> None:
        """Nothing to let go of."""

    def _listed(self, job: Job) -> Listed:
        n = list(self._tables.jobs).index(job.id) + 1
        newest = max((a for a in self._tables.attempts.values() if a.job == job.id), key=_number, default=None)
        return Listed(n=n, job=job, attempt=newest)


def _is(job: Job, project: str, which: Which) -> bool:
    return (
        job.id.startswith(f"{project}/{which.prefix}")
        and which.dialect in ("", job.request.dialect)
        and (which.states is None or job.state in which.states)
    )


def _number(attempt: Attempt) -> int:
    return attempt.number
