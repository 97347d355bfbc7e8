"""What a store is: one log of changes, committed all or none, and the rows that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.core.changes import Change
from stoker.core.job import Attempt, Job
from stoker.core.node import Node
from stoker.core.states import JobState, ShownState, shown_state
from stoker.core.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the story."""

    n: int  # its position, from 1, without gaps in what one store shows
    at: float  # when it was committed
    by: str  # who did it: a user, `loop`, a replica
    job: str  # the job that it concerns; empty for nodes
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A job in a list, with its newest attempt (None: none yet)."""

    n: int  # grows with the order of submission; pages continue from it
    job: Job
    attempt: Attempt | None

    @property
    def state(self) -> ShownState:
        """What a user sees."""
        state, cause = (self.attempt.state, self.attempt.cause) if self.attempt else (None, None)
        return shown_state(self.job.state, self.job.wish, state, cause, is_ordered=self.job.ordered is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which jobs of a project a list is about. What is not said is not asked."""

    dialect: str = ""  # in which the job was submitted
    states: frozenset[JobState] | None = None  # None: any
    prefix: str = ""  # of the name


ALL_JOBS = Which()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The server that leads: its loop decides."""

    term: int  # counted up by everybody who takes the lead
    who: str  # its address
    since: float


class Store(Protocol):
    """Keeps everything. Safe to call from any thread."""

    def commit(self, changes: Sequence[Change], *, by: str, term: int | None = None) -> int:
        """Write all of the changes or none. Returns the story's new position once they are durable.

        `term`: that in which they were decided. Raises Deposed for an earlier one; AlreadyExists, NotFound, IllegalMove or
        Conflict when a change does not fit what is written, Unavailable when it cannot be written (a full disk).
        """
        ...

    def lead(self, who: str) -> int:
        """Take the lead. Returns the new term; from now on nothing is written that an earlier one decides."""
        ...

    def leader(self) -> Leader | None:
        """Who took the lead last. None: nobody ever."""
        ...

    def world(self) -> World:
        """A World of one's own, true at its `position`."""
        ...

    def nodes(self) -> list[Node]:
        """The nodes."""
        ...

    def story(self, job: str = "", after: int = 0, limit: int | None = None) -> Iterator[Line]:
        """The lines after a position, of one job or of all."""
        ...

    def position(self) -> int:
        """The position of the last line."""
        ...

    def job(self, job: str) -> Listed:
        """One job. Raises NotFound."""
        ...

    def jobs(
        self, project: str, *, before: int | None = None, limit: int = 100, which: Which = ALL_JOBS
    ) -> list[Listed]:
        """The jobs of a project, newest first, from before a page mark. Costs what it finds, not what there is."""
        ...

    def ended(self, since: float, limit: int) -> list[Job]:
        """The jobs that ended since a moment (seconds since the epoch): the newest `limit` of them, oldest first."""
        ...

    def attempts(self, job: str) -> list[Attempt]:
        """Every attempt of a job, oldest first."""
        ...

    def held_since(self, since: float) -> list[tuple[Job, Attempt]]:
        """Every attempt that held machines at a moment (seconds since the epoch) or later, by its job's submission."""
        ...

    def attempt(self, attempt: str) -> Attempt:
        """One attempt, live or ended. Raises NotFound."""
        ...

    def unknown_jobs(self, jobs: Collection[str]) -> set[str]:
        """The ids that no job ever had here, be it one that was forgotten."""
        ...

    def unknown_attempts(self, attempts: Collection[str]) -> set[str]:
        """The ids that no attempt ever had here."""
        ...

    def last_moment(self) -> float:
        """When the last line of the story was written, in seconds since the epoch; 0 for none."""
        ...

    def listen(self, ring: Callable[[int], None]) -> None:
        """Call `ring(position)` after every commit, from the thread that committed."""
        ...

    def close(self) -> None:
        """Write what is pending and let go of the files."""
        ...
