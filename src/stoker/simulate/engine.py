"""An engine without machines: a job runs as long as its trace says, in virtual time.

It alone knows how long jobs run. The scheduler that it serves learns it only when they end.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.clock import Clock
from stoker.core.convention import Convention
from stoker.core.ids import job_of_attempt
from stoker.core.job import Attempt, Job
from stoker.core.launch import Launch, Surroundings
from stoker.core.node import Node, NodeState
from stoker.core.states import ReplicaState
from stoker.engines.base import Request, Seen

from .failures import NEVER, Outages

PATIENCE_SECONDS = 30 * 86400.0
"""With nothing running for so long, nodes that fail and come back are no events any more: nobody would ever end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What interruptions cost, in seconds."""

    restart_seconds: float = 30.0  # of every start but the first, with its machines held
    lost_seconds: float = 0.0  # of work since the last checkpoint, at every interruption


@dataclass(slots=True)
class _Work:
    """How far a job has come."""

    left_seconds: float
    goes_on: bool  # stopped, it goes on from where it was; otherwise it begins anew
    attempt: str = ""  # the last one
    starts: int = 0


@dataclass(slots=True)
class _Run:
    """One attempt that runs."""

    began_at: float  # doing work, the restart behind it
    ends_at: float


class SimulatedEngine:
    """Implements Engine in virtual time."""

    def __init__(
        self,
        nodes: Sequence[Node],
        clock: Clock,
        run_seconds: Mapping[str, float],
        costs: Costs = Costs(),
        *,
        begin_anew: Container[str] = frozenset(),
        outages: Outages | None = None,
    ) -> None:
        self._nodes = self._all_nodes = tuple(nodes)
        self._clock = clock
        self._costs = costs
        self._outages = outages
        self._failed: dict[str, float] = {}  # nodes that have failed since attempts were last asked for, and when
        self._busy_at = clock.now()  # when something last ran
        self._unfinished = len(run_seconds)
        self._work = {job: _Work(seconds, job not in begin_anew) for job, seconds in run_seconds.items()}
        self._runs: dict[str, _Run] = {}
        self._ends: list[tuple[float, str]] = []
        self._news: dict[str, ReplicaState] = {}
        self._stopped: set[str] = set()  # or ended: nothing starts after it

    def next_event(self) -> float:
        """When something will be seen next; infinity: never."""
        while self._ends and self._ends[0][1] not in self._runs:
            heapq.heappop(self._ends)
        end = self._ends[0][0] if self._ends else NEVER
        if self._outages is None:
            return end
        may_matter = self._runs or self._clock.now() < self._busy_at + PATIENCE_SECONDS
        return min(end, self._outages.next_at) if may_matter and self._unfinished else end

    def left_seconds(self, job: str) -> float:
        """How long a job will still hold its machines if nobody stops it: what only this engine knows."""
        work = self._work[job]
        run = self._runs.get(work.attempt)
        if run is not None:
            return max(0.0, run.ends_at - self._clock.now())
        return work.left_seconds + (self._costs.restart_seconds if work.starts else 0.0)

    def nodes(self) -> Sequence[Node]:
        """The nodes of the simulated cluster, those that have failed as DOWN."""
        if self._outages is not None and self._outages.next_at <= self._clock.now():
            self._failed |= self._outages.pass_until(self._clock.now())
            down = self._outages.down
            self._nodes = tuple(replace(n, state=NodeState.DOWN) if n.name in down else n for n in self._all_nodes)
        return self._nodes

    def change_nodes(self, nodes: Sequence[Node]) -> None:
        """From now on there are these."""
        self._nodes = self._all_nodes = tuple(nodes)

    def render(self, launch: Launch) -> Request:
        """Nothing to say: the trace knows what runs."""
        return Request(attempt=launch.attempt, replicas={})

    def start(self, request: Request) -> None:
        """All replicas are up at once. A job that was interrupted pays for its restart."""
        attempt = request.attempt
        if attempt in self._runs or attempt in self._stopped:
            return
        work, now = self._work[job_of_attempt(attempt)], self._clock.now()
        began_at = now + (self._costs.restart_seconds if work.starts else 0.0)
        work.starts += 1
        work.attempt, self._busy_at = attempt, now
        self._runs[attempt] = _Run(began_at, began_at + work.left_seconds)
        heapq.heappush(self._ends, (began_at + work.left_seconds, attempt))
        self._news[attempt] = ReplicaState.UP

    def stop(self, attempt: str, *, force: bool) -> None:
        """It has gone at once; what it has done since its last checkpoint is lost."""
        run, work = self._runs.pop(attempt, None), self._work[job_of_attempt(attempt)]
        self._busy_at = self._clock.now()
        if run is not None and work.goes_on:
            done = self._clock.now() - run.began_at - self._costs.lost_seconds
            work.left_seconds -= max(0.0, done)
        if attempt not in self._stopped:
            self._stopped.add(attempt)
            self._news[attempt] = ReplicaState.LOST

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What has happened since it was last asked."""
        now = self._clock.now()
        while self._ends and self._ends[0][0] <= now:
            attempt = heapq.heappop(self._ends)[1]
            if self._runs.pop(attempt, None) is not None:
                self._news[attempt] = ReplicaState.SUCCEEDED
                self._stopped.add(attempt)
                self._busy_at = now
                self._unfinished -= 1
        if self._failed:
            self._lose(attempts)
        news, self._news = self._news, {}
        return {
            attempt: [Seen(role=r.role, index=r.index, state=state, exit_code=_CODES.get(state)) for r in a.replicas]
            for attempt, state in news.items()
            if (a := attempts.get(attempt)) is not None
        }

    def _lose(self, attempts: Mapping[str, Attempt]) -> None:
        """What ran on a node that has failed is lost with it, the whole gang."""
        failed, self._failed = self._failed, {}
        for attempt in attempts.values():
            if any(attempt.placed_at < failed.get(place.node, 0.0) for place in attempt.placements):
                if attempt.id in self._runs:
                    self.stop(attempt.id, force=True)

    def ask(self, attempt: str, request: Mapping[str, Any]) -> None:
        """It has no processes."""

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """It writes none."""
        return iter(())

    def forget(self, attempt: str) -> None:
        """It will not be asked for again."""
        self._stopped.discard(attempt)


_CODES = {ReplicaState.SUCCEEDED: 0}


class SimulatedKind:
    """Implements Kind: an attempt with nothing to run."""

    def launch(self, job: Job, attempt: Attempt, surroundings: Surroundings) -> Launch:
        """The attempt, by its id."""
        return Launch(
            attempt=attempt.id,
            number=attempt.number,
            convention=Convention.AI_PLATFORM,
            primary_name="chief",
            told="{}",
            packages=(),
            source=(),
            grace_seconds=0.0,
            in_place=0,
            replicas=(),
        )


class NoLines:
    """Keeps no lines, for there are none."""

    def last_number(self, attempt: str, replica: str) -> int:
        """The number of the last line that is kept: none is."""
        return 0

    def append(self, attempt: str, replica: str, lines: Sequence[Mapping[str, Any]]) -> int:
        """Nothing to keep."""
        return 0

    def end(self, attempt: str, replica: str) -> None:
        """Nothing to say."""
