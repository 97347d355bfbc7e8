"""One way in which a site may go on: the scheduler that decides live, played forward over a World of its own.

What the control loop adds to it (a store, engines, launches) changes no decision, so it is left out here: a forecast plays
the future many times within a second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

from stoker.core.changes import Change, Explain, MoveAttempt, MoveJob, NodeSeen, Open, OrderMachines
from stoker.core.job import Attempt, Job, Placement, Replica
from stoker.core.states import FINAL_JOB_STATES, AttemptState, Cause, ReplicaState
from stoker.core.world import World, apply
from stoker.scheduling.pools import count_by_pool, machines_of
from stoker.scheduling.rules import Rules
from stoker.scheduling.scheduler import Scheduler
from stoker.scheduling.settle import job_fate

from .run_times import Known

ORDER_SECONDS = 180.0
"""From the order of machines until they are up: what clouds and the start of Ray take together, roughly."""

STOP_SECONDS = 2.0
"""From being told to stop until the machines are free."""

LEARNING_POLICIES = frozenset({"gittins"})
"""Policies that go by more of the past than run times."""

_MOST_ROUNDS = 50
_WAITING_PER_WORK = 50

Total = Callable[[Job, Attempt], float]
"""How many seconds a job holds its machines in all in this future."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """A state of the site, and what is known of its jobs: all that a forecast rests on."""

    world: World
    rules: Rules
    known: Known
    at: float
    hold: bool = False
    ended: tuple[Job, ...] = ()  # for shares that remember past usage, and policies that learn more than run times

    def scheduler(self) -> Scheduler:
        """A scheduler that has seen nothing yet."""
        made = Scheduler(self.rules, hold=self.hold, history=self.known.again())
        site = self.rules.site
        policies = {site.policy, *(queue.policy for queue in site.queues.values())}
        if site.half_life_seconds or policies & LEARNING_POLICIES:
            made.learn(self.ended, self.at)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the job in question."""

    started_at: float | None  # None: not until `played_until`
    played_until: float
    work: float  # decisions, each with the part of the queue that it looked at
    placements: tuple[Placement, ...] = ()
    let_in_by: str = ""  # the job that ended just before
    is_over: bool = False  # it was given up before it started: nothing will start it any more
    was_cut: bool = False  # there was no time to play on


class Future:
    """Plays until one job has started."""

    def __init__(self, now: Now, total: Total) -> None:
        world = now.world
        self._scheduler = now.scheduler()
        self._total = total
        self._begin = self._now = now.at
        self._world = World(
            jobs=dict(world.jobs),
            attempts=dict(world.attempts),
            attempt_of=dict(world.attempt_of),
            nodes=world.nodes,
            records=world.records,
        )
        self._pools = now.rules.site.pools
        if self._pools:  # nodes come, and pools fail
            self._world.nodes, self._world.records = dict(world.nodes), dict(world.records)
        self._come_at: float | None = None  # when machines come that are on order; None: none are
        if any(job.ordered is not None for job in world.jobs.values()):
            self._come_at = now.at + ORDER_SECONDS
        self._ends: list[tuple[float, str]] = []
        self._last_ended = ""
        self._work = 0.0
        for attempt in world.attempts.values():
            self._push_end(attempt)

    def play(
        self,
        job: str,
        *,
        until: float,
        most_work: float = float("inf"),
        grain: float = 0.0,
        has_time: Callable[[], bool] = lambda: True,
    ) -> Outcome:
        """Go from one moment at which something happens to the next.

        `grain`: what happens within this part of the time gone by counts as one moment. `most_work`: see Outcome.
        """
        while True:
            found = self._settle(job)
            if found is not None:
                return found
            moment = self._next()
            if moment is None or moment > until:
                return self._outcome(until)
            if self._work >= most_work or not has_time():
                return self._outcome(max(self._now, moment), was_cut=True)
            self._now = max(self._now, moment) + grain * (moment - self._begin)
            if self._come_at is not None and self._come_at <= self._now:
                self._let_machines_come()
            while self._ends and self._ends[0][0] <= self._now:
                self._end(heapq.heappop(self._ends)[1])

    def _settle(self, job: str) -> Outcome | None:
        """Decide until nothing follows any more. Returns what became of the job, if that is certain now."""
        for _ in range(_MOST_ROUNDS):
            self._work += 1 + len(self._scheduler.state.waiting) / _WAITING_PER_WORK
            settled = self._scheduler.settle(self._world, self._now)
            for change in settled:
                self._carry(change)
                if isinstance(change, MoveJob) and change.job == job and change.after in FINAL_JOB_STATES:
                    return self._outcome(self._now, is_over=True)
            decided = [c for c in self._scheduler.decide(self._world, self._now).changes if not isinstance(c, Explain)]
            for change in decided:
                if isinstance(change, Open) and change.attempt.job == job:
                    return self._outcome(self._now, change.attempt)
                self._carry(change)
            if not settled and not decided:
                break
        return None

    def _carry(self, change: Change) -> None:
        """What was decided happens; what it starts is up at once, what it stops is gone soon."""
        if isinstance(change, Open):
            self._open(change.attempt)
            return
        self._put(change)
        if isinstance(change, OrderMachines) and change.ordered is not None and self._come_at is None:
            self._come_at = self._now + ORDER_SECONDS
        if isinstance(change, MoveAttempt) and change.after is AttemptState.STOPPING:
            heapq.heappush(self._ends, (self._now + STOP_SECONDS, change.attempt))

    def _next(self) -> float | None:
        while self._ends and self._ends[0][1] not in self._world.attempts:
            heapq.heappop(self._ends)
        moments = [self._scheduler.next_deadline(), self._come_at, self._ends[0][0] if self._ends else None]
        return min((moment for moment in moments if moment is not None), default=None)

    def _let_machines_come(self) -> None:
        """All that are on order are there now."""
        self._come_at = None
        there = count_by_pool(self._world.nodes.values())
        for name, count in self._scheduler.wanted(self._world).items():
            for node in machines_of(self._pools[name], range(there[name], count)):
                self._put(NodeSeen(node=replace(node, name=f"{name}-{node.name.rpartition('/')[2]}")))

    def _open(self, attempt: Attempt) -> None:
        """Open an attempt: its replicas are up at once."""
        up = tuple(replace(replica, seen=ReplicaState.UP) for replica in attempt.replicas)
        self._put(Open(attempt=replace(attempt, state=AttemptState.STARTING, replicas=up)))
        self._move(attempt.id, AttemptState.RUNNING)
        self._push_end(attempt)

    def _push_end(self, attempt: Attempt) -> None:
        if attempt.state is AttemptState.STOPPING:
            moment = self._now + STOP_SECONDS
        else:
            job = self._world.jobs[attempt.job]
            moment = attempt.placed_at + max(0.0, self._total(job, attempt) - job.held_seconds)
        heapq.heappush(self._ends, (max(self._now, moment), attempt.id))

    def _end(self, attempt_id: str) -> None:
        """An attempt is over: its work is done, or it was told to stop."""
        attempt = self._world.attempts.get(attempt_id)
        if attempt is None:
            return
        if attempt.state is not AttemptState.STOPPING:
            self._move(attempt_id, AttemptState.STOPPING, Cause.COMPLETED)
        job = self._world.jobs[attempt.job]
        stopped = self._world.attempts[attempt_id]
        self._move(attempt_id, AttemptState.ENDED)
        self._put(job_fate(self._world, job, stopped, self._now))
        self._last_ended = job.id

    def _move(self, attempt_id: str, after: AttemptState, cause: Cause | None = None) -> None:
        before = self._world.attempts[attempt_id].state
        self._put(MoveAttempt(attempt=attempt_id, before=before, after=after, at=self._now, cause=cause))

    def _put(self, change: Change) -> None:
        apply(self._world, change)
        self._scheduler.see(change)

    def _outcome(
        self, until: float, attempt: Attempt | None = None, *, is_over: bool = False, was_cut: bool = False
    ) -> Outcome:
        return Outcome(
            started_at=self._now if attempt else None,
            played_until=until,
            work=self._work,
            placements=attempt.placements if attempt else (),
            let_in_by=self._last_ended,
            is_over=is_over,
            was_cut=was_cut,
        )


def adopted(world: World, now: float) -> World:
    """A World to play on: whatever holds machines and is not stopping runs, all of its replicas up."""
    attempts = {}
    for attempt in world.attempts.values():
        if attempt.state is not AttemptState.STOPPING:
            started = now if attempt.started_at is None else attempt.started_at
            up = tuple(Replica(role=r.role, index=r.index, seen=ReplicaState.UP, at=r.at) for r in attempt.replicas)
            attempt = replace(attempt, state=AttemptState.RUNNING, started_at=started, replicas=up)
        attempts[attempt.id] = attempt
    return World(
        jobs=dict(world.jobs),
        attempts=attempts,
        attempt_of=dict(world.attempt_of),
        nodes=dict(world.nodes),
        records=dict(world.records),
        position=world.position,
    )
