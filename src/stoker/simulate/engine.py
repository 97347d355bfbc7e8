"""An engine without machines: a job runs as long as its trace says, in virtual time.

It alone knows how long jobs run. The scheduler that it serves learns it only when they end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.clock import ManualClock
from stoker.core.convention import Convention
from stoker.core.ids import job_of_attempt
from stoker.core.job import Attempt, Job
from stoker.core.launch import Launch, Surroundings
from stoker.core.node import Node
from stoker.core.states import ReplicaState
from stoker.engines.base import Request, Seen

NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What interruptions cost, in seconds."""

    restart_seconds: float = 30.0  # of every start but the first, with its machines held
    lost_seconds: float = 0.0  # of work since the last checkpoint, at every interruption


@dataclass(slots=True)
class _Work:
    """How far a job has come."""

    left_seconds: float
    starts: int = 0


@dataclass(slots=True)
class _Run:
    """One attempt that runs."""

    began_at: float  # doing work, the restart behind it
    ends_at: float
    fails: bool = False


class SimulatedEngine:
    """Implements Engine in virtual time."""

    def __init__(
        self, nodes: Sequence[Node], clock: ManualClock, run_seconds: Mapping[str, float], costs: Costs = Costs()
    ) -> None:
        self._nodes = tuple(nodes)
        self._clock = clock
        self._costs = costs
        self._work = {job: _Work(seconds) for job, seconds in run_seconds.items()}
        self._runs: dict[str, _Run] = {}
        self._ends: list[tuple[float, str]] = []
        self._news: dict[str, ReplicaState] = {}
        self._stopped: set[str] = set()

    def next_event(self) -> float:
        """When something will be seen next; infinity: never."""
        while self._ends and self._ends[0][1] not in self._runs:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else NEVER

    def nodes(self) -> Sequence[Node]:
        """The nodes of the simulated cluster."""
        return self._nodes

    def change_nodes(self, nodes: Sequence[Node]) -> None:
        """From now on there are these."""
        self._nodes = tuple(nodes)

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
        self._runs[attempt] = _Run(began_at, began_at + work.left_seconds)
        heapq.heappush(self._ends, (began_at + work.left_seconds, attempt))
        self._news[attempt] = ReplicaState.UP

    def stop(self, attempt: str, *, force: bool) -> None:
        """It has gone at once; what it has done since its last checkpoint is lost."""
        run = self._runs.pop(attempt, None)
        if run is not None:
            done = self._clock.now() - run.began_at - self._costs.lost_seconds
            self._work[job_of_attempt(attempt)].left_seconds -= max(0.0, done)
        if attempt not in self._stopped:
            self._stopped.add(attempt)
            self._news[attempt] = ReplicaState.LOST

    def interrupt(self, attempt: str) -> None:
        """It is lost with its machine."""
        self.stop(attempt, force=True)

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What has happened since it was last asked."""
        now = self._clock.now()
        while self._ends and self._ends[0][0] <= now:
            attempt = heapq.heappop(self._ends)[1]
            if self._runs.pop(attempt, None) is not None:
                self._news[attempt] = ReplicaState.SUCCEEDED
        news, self._news = self._news, {}
        return {
            attempt: [Seen(role=r.role, index=r.index, state=state, exit_code=_CODES.get(state)) for r in a.replicas]
            for attempt, state in news.items()
            if (a := attempts.get(attempt)) is not None
        }

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
