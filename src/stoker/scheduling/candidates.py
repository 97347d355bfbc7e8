"""Who may be stopped for one that waits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from stoker.core.job import Attempt, Job
from stoker.core.site import Victims
from stoker.core.world import World

from .base import Facts
from .runners import Kind
from .scheduler_state import SchedulerState
from .usage import Amounts

MOST_CANDIDATES = 2000
"""Attempts that are considered for one job: more would make one decision slow."""

AN_INSTANT_SECONDS = 0.001

_MAY_GO = {
    Victims.NOBODY: frozenset[Kind](),
    Victims.PREEMPTIBLE: frozenset({Kind.PREEMPTIBLE}),
    Victims.RESUMABLE: frozenset({Kind.PREEMPTIBLE, Kind.RESUMABLE}),
    Victims.ANY: frozenset(Kind),
}


class Candidates:
    """The attempts whose places a job that waits may have."""

    def __init__(self, state: SchedulerState, world: World, now: float) -> None:
        self._rules = state.rules
        self._usage = state.usage
        self._history = state.history
        self._runners = state.runners
        self._shapes = state.shapes
        self._world = world
        self._now = now
        self.spared_until = (
            math.inf
        )  # when somebody who was left out because it will soon be over is to be looked at again

    def of(self, job: Job, amounts: Amounts, going: Collection[str]) -> dict[str, Attempt]:
        """The attempts that may be stopped for this job, first victim first: who said so, who borrows, who resumes, the rest."""
        self.spared_until = math.inf
        found: dict[str, Attempt] = {}
        waiter = Facts(job, None, self._now, self._history)
        mine, runners = self._rules.queue(job.spec.queue), self._runners
        runners.refresh(self._world, self._now)
        lends = bool(mine.cohort) and self._usage.is_within_its_own(mine, amounts)
        policy = self._rules.policy_of(job.spec.queue)
        claim = policy.claim(waiter) if self.is_patient(job) else None
        if not job.spec.preemptible:
            for queue in runners.queues:
                self._add(found, job, runners.grown(queue, Kind.PREEMPTIBLE), going)
        for kind in Kind:
            if lends:
                for queue in runners.queues:
                    self._add_lent(found, job, queue, runners.all_of(queue, kind), going)
            if claim is not None and kind in _MAY_GO[self._rules.site.preemption.victims]:
                self._add(found, job, runners.weaker(job.spec.queue, kind, claim), going)
        return found

    def is_patient(self, job: Job) -> bool:
        """Whether it has waited long enough to have others stopped. One that was just stopped has not, at that instant."""
        waited, policy = self._now - job.queued_since, self._rules.policy_of(job.spec.queue)
        patience = policy.patience_seconds(Facts(job, None, self._now, self._history))
        return waited >= patience and (waited > 0 or not job.preemptions)

    def _add(self, found: dict[str, Attempt], job: Job, runners: Iterable[str], going: Collection[str]) -> None:
        """Add those of one pool with the job that have not been stopped too often."""
        budget = self._rules.site.preemption.budget
        for attempt_id in runners:
            if attempt_id in found or attempt_id in going:
                continue
            attempt = self._world.attempts[attempt_id]
            other = self._world.jobs[attempt.job]
            if other.preemptions < budget and other.spec.pool == job.spec.pool and self._is_worth_it(other, attempt):
                found[attempt_id] = attempt
                if len(found) >= MOST_CANDIDATES:
                    return

    def _add_lent(
        self, found: dict[str, Attempt], job: Job, queue: str, runners: Iterable[str], going: Collection[str]
    ) -> None:
        """Add those that hold what the job asks for and their queue has borrowed, as far as it has borrowed it."""
        mine, theirs = self._rules.queue(job.spec.queue), self._rules.queue(queue)
        if theirs.cohort != mine.cohort or theirs.name == mine.name:
            return
        asked = self._shapes.of(job.spec).amounts
        over = {resource: self._usage.over(theirs, resource) for resource in theirs.quotas if asked.get(resource)}
        grown = self._now - self._rules.site.preemption.quantum_seconds
        for attempt_id in runners:
            gives = self._usage.held_by(attempt_id)
            if attempt_id in going or not any(over[resource] > 0 and gives.get(resource) for resource in over):
                continue
            attempt = self._world.attempts[attempt_id]
            if attempt.placed_at <= grown and self._world.jobs[attempt.job].spec.pool == job.spec.pool:
                found.setdefault(attempt_id, attempt)
                for resource in over:
                    over[resource] -= gives.get(resource, 0)

    def _is_worth_it(self, job: Job, attempt: Attempt) -> bool:
        """Whether it would hold its machines for longer than its stop and restart cost."""
        cost = self._history.overhead_seconds(self._rules.site.preemption.cost_seconds)
        ran = job.held_seconds + self._now - attempt.placed_at
        remaining = self._history.remaining_seconds(job, ran)
        if remaining is None or remaining > cost:
            return True
        outlives_in = self._history.outlives_in(job, ran)
        look_in = cost - ran if outlives_in is None else outlives_in
        self.spared_until = min(self.spared_until, self._now + max(AN_INSTANT_SECONDS, look_in))
        return False
