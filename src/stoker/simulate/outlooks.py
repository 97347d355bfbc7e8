"""Tells what lies before a job: a reader's own World, which follows the story as the loop's does, and is played forward."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from stoker.clock import Clock
from stoker.core.changes import Change, MoveJob
from stoker.core.job import Attempt, Job
from stoker.core.node import Node
from stoker.core.states import FINAL_JOB_STATES, AttemptState
from stoker.core.world import World, apply
from stoker.insight.outlook import Holder, Interval, Outlook, QuotaUse, Runs
from stoker.scheduling.history import History
from stoker.scheduling.rules import Rules
from stoker.scheduling.scheduler import Scheduler
from stoker.scheduling.settle import force_after_seconds
from stoker.scheduling.usage import amounts_of
from stoker.store.base import Store

from .agreed import agreed, unknown
from .estimate import MOST_PLAYED, Line, estimate
from .forecast import Budget
from .future import Now, adopted
from .run_times import Known, expected_runs, likely_end
from .what_if import replace_job, what_ifs

REMEMBERED_SECONDS = 30 * 86400.0
MOST_REMEMBERED = 20_000
NOT_KNOWN = "nothing like it has run here: only its limit is known"
MOST_AHEAD = 10
MOST_HOLDERS = 20
FRESH_SECONDS = 2.0
"""An answer about the same state of the site is given again for so long."""

_LONGEST_WAY_BEHIND = 2000
_MOST_ANSWERS = 200


@dataclass(slots=True)
class PlayedOutlooks:
    """Implements Outlooks. One question at a time: playing the future takes a processor."""

    store: Store
    rules: Rules
    clock: Clock
    hold: bool = False
    budget: Budget = field(default_factory=Budget)
    patience_seconds: float = 5.0  # so long one waits for others who ask; then nothing is said of the future
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _world: World | None = None
    _history: History = field(default_factory=History)
    _ended: list[Job] = field(default_factory=list)
    _answers: dict[str, Outlook] = field(default_factory=dict)

    def of(self, job: str) -> Outlook | None:
        """The outlook of a job that lives."""
        if not self._lock.acquire(timeout=self.patience_seconds):
            return None
        try:
            world, now = self._caught_up(), self.clock.now()
            known = self._answers.get(job)
            if known is not None and known.position == world.position and now - known.at < FRESH_SECONDS:
                return known
            found = self._look(world, job, now) if job in world.jobs else None
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            if found is not None:
                self._answers[job] = found
            return found
        finally:
            self._lock.release()

    def of_new(self, job: Job, nodes: tuple[Node, ...] = ()) -> Outlook | None:
        """The outlook of a job if it were submitted now."""
        if not self._lock.acquire(timeout=self.patience_seconds):
            return None
        try:
            world = replace_job(self._caught_up(), job)
            for node in nodes:
                world.nodes[node.name] = node
            return self._look(world, job.id, self.clock.now())
        finally:
            self._lock.release()

    def _look(self, world: World, job_id: str, at: float) -> Outlook:
        job, attempt = world.jobs[job_id], world.attempt(job_id)
        runs = expected_runs(job, attempt, self._history, at)
        if attempt is not None:
            ends, _ = _ends(job, attempt, runs, at)
            is_stopping = attempt.state is AttemptState.STOPPING
            return Outlook(at=at, position=world.position, runs=None if is_stopping else runs, ends=ends)
        # 1. As it is now: why it waits, behind whom.
        known = Known.of(self._history, world.jobs.values())
        here = Now(world=world, rules=self.rules, known=known, at=at, hold=self.hold, ended=tuple(self._ended))
        scheduler = here.scheduler()
        reason = job.waits  # as the loop has written it; where that costs little, it is asked anew
        if len(world.jobs) <= MOST_PLAYED:
            reason = scheduler.decide(world, at).waits.get(job_id)
        line = Line.of(here, scheduler, job_id)
        # 2. As it will likely be.
        now = replace(here, world=adopted(world, at))
        start = estimate(now, job, self.budget.part(0.6), line)
        quota = _quota(job, self.rules, scheduler) if reason else None
        holders = self._holders(world, job, quota, scheduler, known, at) if reason else ()
        ahead = tuple(other.id for other in line.ahead[:MOST_AHEAD])
        return Outlook(
            at=at,
            position=world.position,
            reason=reason,
            ahead=ahead,
            start=agreed(start, holders, ahead, at),
            runs=runs,
            holders=holders,
            quota=quota,
            what_if=what_ifs(now, job, start, self._history, self.budget.part(0.4)),
        )

    def _holders(
        self, world: World, job: Job, quota: QuotaUse | None, scheduler: Scheduler, known: Known, at: float
    ) -> tuple[Holder, ...]:
        """Who has what it could use: on the nodes that could hold it, or of the quota of its queue. Who ends first, first."""
        if quota is not None:
            near = {job.spec.queue, *_cohort(self.rules, job.spec.queue)}
            names = [a.job for a in world.attempts.values() if world.jobs[a.job].spec.queue in near]
        else:
            free = scheduler.state.free
            places = {int(n) for group in job.spec.groups for n in free.candidates(job.spec, group.machine)}
            names = [name for name in free.names_on(places) if name in world.attempt_of]
        if job.spec.accelerator_milli:  # who holds none of what it lacks most is not in its way
            names = [name for name in names if world.jobs[name].spec.accelerator_milli] or names
        ends = sorted((likely_end(world.jobs[name], world.attempt(name), known, at), name) for name in names)
        return tuple(self._holder(world.jobs[name], world.attempt(name), at) for _, name in ends[:MOST_HOLDERS])

    def _holder(self, job: Job, attempt: Attempt | None, at: float) -> Holder:
        assert attempt is not None
        ends, basis = _ends(job, attempt, expected_runs(job, attempt, self._history, at), at)
        return Holder(
            job=job.id,
            accelerators=job.spec.accelerator_milli / 1000,
            since=attempt.placed_at,
            ends=ends,
            basis=basis,
        )

    # Following the story

    def _caught_up(self) -> World:
        world = self._world
        if world is None or self.store.position() - world.position > _LONGEST_WAY_BEHIND:
            world = self._world = self.store.world()
            self._history = History()
            self._ended = self.store.ended(self.clock.now() - REMEMBERED_SECONDS, MOST_REMEMBERED)
            for job in self._ended:
                self._history.add(job, job.held_seconds)
            return world
        for line in self.store.story(after=world.position):
            self._learn(world, line.change)
            apply(world, line.change)
            world.position = line.n
        return world

    def _learn(self, world: World, change: Change) -> None:
        if isinstance(change, MoveJob) and change.after in FINAL_JOB_STATES and change.job in world.jobs:
            job = world.jobs[change.job]
            ended = replace(
                job, state=change.after, ended_at=change.at, held_seconds=job.held_seconds + change.held_seconds
            )
            self._history.add(ended, ended.held_seconds)
            self._ended.append(ended)
            del self._ended[: max(0, len(self._ended) - MOST_REMEMBERED)]


def _ends(job: Job, attempt: Attempt, runs: Runs, at: float) -> tuple[Interval, str]:
    """When a live attempt will likely give its machines back, and from what that is known."""
    if attempt.state is AttemptState.STOPPING and attempt.stopping_at is not None:
        last = max(at, attempt.stopping_at + force_after_seconds(job))
        return Interval(low=at, middle=at, high=last), "it is being stopped"
    if not runs.known_runs:
        return unknown((attempt.started_at or at) + job.spec.limits.running_seconds), NOT_KNOWN
    began = attempt.placed_at - job.held_seconds  # as if it had run in one go
    return runs.seconds.later(began), runs.basis


def _cohort(rules: Rules, queue: str) -> list[str]:
    cohort = rules.queue(queue).cohort
    return [other.name for other in rules.site.queues.values() if cohort and other.cohort == cohort]


def _quota(job: Job, rules: Rules, scheduler: Scheduler) -> QuotaUse | None:
    """What its queue holds of what the job would take beyond what it may hold. None: there is no such resource."""
    queue, amounts = rules.queue(job.spec.queue), amounts_of(job.spec)
    usage = scheduler.state.usage
    resource = usage.exceeded(queue, amounts)
    if resource is None:
        return None
    return QuotaUse(
        queue=queue.name,
        resource=resource,
        held=usage.held(queue.name, resource) / 1000,
        own=queue.quotas[resource].nominal_milli / 1000,
        asked=amounts.get(resource, 0) / 1000,
    )
