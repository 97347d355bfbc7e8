"""The store that forgets: everything in dictionaries. For tests and the simulator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from stoker.clock import Clock, SystemClock
from stoker.core.changes import Change
from stoker.core.errors import AlreadyExists, IllegalMove, NotFound
from stoker.core.job import Attempt, Job
from stoker.core.node import Node
from stoker.core.states import FINAL_JOB_STATES, AttemptState
from stoker.core.world import World

from .base import ALL_JOBS, Line, Listed, Which
from .write import job_of, write


@dataclass(slots=True)
class _Tables:
    """The rows. Values are frozen, so a shallow copy is a snapshot."""

    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    held: dict[tuple[str, str], str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)  # jobs that are forgotten

    def copy(self) -> _Tables:
        return _Tables(dict(self.jobs), dict(self.attempts), dict(self.nodes), dict(self.held), set(self.hidden))

    def read_job(self, job: str) -> Job:
        if job not in self.jobs or job in self.hidden:
            raise NotFound(f"no job {job}")
        return self.jobs[job]

    def insert_job(self, job: Job) -> None:
        if job.id in self.jobs:
            raise AlreadyExists(f"there is a job {job.id} already")
        self.jobs[job.id] = job

    def update_job(self, job: Job) -> None:
        self.jobs[job.id] = job

    def hide_job(self, job: str) -> None:
        self.hidden.add(job)

    def read_attempt(self, attempt: str) -> Attempt:
        if attempt not in self.attempts:
            raise NotFound(f"no attempt {attempt}")
        return self.attempts[attempt]

    def insert_attempt(self, attempt: Attempt) -> None:
        if any(a.job == attempt.job and a.state is not AttemptState.ENDED for a in self.attempts.values()):
            raise IllegalMove(f"{attempt.job} has a live attempt already")
        self.attempts[attempt.id] = attempt

    def update_attempt(self, attempt: Attempt) -> None:
        self.attempts[attempt.id] = attempt

    def hold(self, attempt: str, devices: Iterable[tuple[str, str]]) -> None:
        for device in devices:
            if device in self.held:
                raise IllegalMove(f"device {device[1]} of {device[0]} is held by {self.held[device]}")
            self.held[device] = attempt

    def release(self, attempt: str) -> None:
        self.held = {device: holder for device, holder in self.held.items() if holder != attempt}

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node

    def delete_node(self, name: str) -> None:
        self.nodes.pop(name, None)


class MemoryStore:
    """Implements Store."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._tables = _Tables()
        self._lines: list[Line] = []
        self._listeners: list[Callable[[int], None]] = []

    def commit(self, changes: Sequence[Change], *, by: str) -> int:
        """Write all of the changes or none."""
        with self._lock:
            tables = self._tables.copy()
            for change in changes:
                write(tables, change)
            self._tables = tables
            for change in changes:
                n = len(self._lines) + 1
                self._lines.append(Line(n=n, at=self._clock.now(), by=by, job=job_of(change), change=change))
            position = len(self._lines)
        for ring in self._listeners:
            ring(position)
        return position

    def world(self) -> World:
        """A World of one's own."""
        with self._lock:
            jobs = {id: job for id, job in self._tables.jobs.items() if job.state not in FINAL_JOB_STATES}
            attempts = {a.id: a for a in self._tables.attempts.values() if a.state is not AttemptState.ENDED}
            return World(
                jobs=jobs,
                attempts=attempts,
                attempt_of={a.job: a.id for a in attempts.values()},
                nodes=dict(self._tables.nodes),
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

    def attempts(self, job: str) -> list[Attempt]:
        """Every attempt of a job, oldest first."""
        with self._lock:
            return [a for a in self._tables.attempts.values() if a.job == job]

    def attempt(self, attempt: str) -> Attempt:
        """One attempt."""
        with self._lock:
            return self._tables.read_attempt(attempt)

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
