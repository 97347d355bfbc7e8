"""Whose places one that waits may have, and which of them are enough for its whole gang."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import islice

from stoker.core.job import Attempt, Job, Placement
from stoker.core.site import Victims
from stoker.core.world import World

from .base import Facts
from .books import Amounts, Books
from .free import Free
from .history import History
from .rules import Rules
from .runners import Kind, Runners

MOST_VICTIMS = 512
"""Attempts that are considered for one job: more would make one decision slow."""


_MAY_GO = {
    Victims.NOBODY: frozenset[Kind](),
    Victims.PREEMPTIBLE: frozenset({Kind.PREEMPTIBLE}),
    Victims.RESUMABLE: frozenset({Kind.PREEMPTIBLE, Kind.RESUMABLE}),
    Victims.ANY: frozenset(Kind),
}


class Preempter:
    """Looks for victims. Nobody is stopped in vain: the whole gang is placed where they are before one is asked to go."""

    def __init__(self, rules: Rules, world: World, free: Free, books: Books, history: History, now: float) -> None:
        self._rules = rules
        self._world = world
        self._free = free
        self._books = books
        self._history = history
        self._now = now

    def find(self, job: Job, amounts: Amounts, runners: Runners, going: Container[str]) -> tuple[Attempt, ...]:
        """The first victims whose places let the whole gang in, as few as it takes. Empty: there are none.

        `going`: attempts that are asked already.
        """
        candidates = self._candidates(job, amounts, runners, going)
        if not candidates or self.places(job, amounts, candidates) is None:
            return ()
        low, high = 0, len(candidates)  # it does not fit without the first `low`, and fits without the first `high`
        while high - low > 1:
            middle = (low + high) // 2
            if self.places(job, amounts, candidates[:middle]) is None:
                low = middle
            else:
                high = middle
        return tuple(self._spare(job, amounts, candidates[:high]))

    def places(self, job: Job, amounts: Amounts, victims: Sequence[Attempt]) -> tuple[Placement, ...] | None:
        """Where the gang would go if the victims were gone; None: nowhere, or its quota would not have it."""
        mark = self._free.checkpoint()
        for victim in victims:
            self._free.release(self._world.jobs[victim.job].spec, victim)
        places = self._rules.placer.place(job.id, job.spec, self._free)
        self._free.rollback(mark)
        if places is not None:
            queue = self._rules.queue(job.spec.queue)
            with self._books.without([victim.id for victim in victims], self._now):
                if self._books.exceeded(queue, amounts) is not None:
                    return None
        return places

    def _candidates(self, job: Job, amounts: Amounts, runners: Runners, going: Container[str]) -> list[Attempt]:
        """Those that may be stopped for this job, first victim first: who said so, who borrows, who resumes, the rest."""
        found: dict[str, Attempt] = {}
        waiter = Facts(job, None, self._now, self._history)
        mine = self._rules.queue(job.spec.queue)
        lenders = self._books.is_within_its_own(mine, amounts) and mine.cohort
        if not job.spec.preemptible:
            for queue in runners.queues:
                self._add(found, job, runners.of(queue, Kind.PREEMPTIBLE), going)
        for kind in Kind:
            if lenders:
                for queue in runners.queues:
                    self._add_lent(found, job, queue, runners.of(queue, kind), going)
            if kind in _MAY_GO[self._rules.site.preemption.victims]:
                self._add_lower(found, waiter, runners.of(job.spec.queue, kind), going)
        return list(islice(found.values(), MOST_VICTIMS))

    def _add(self, found: dict[str, Attempt], job: Job, runners: Iterable[str], going: Container[str]) -> None:
        """Add those of one pool with the job that may be stopped at all."""
        preemption = self._rules.site.preemption
        for attempt_id in runners:
            attempt = self._world.attempts[attempt_id]
            other = self._world.jobs[attempt.job]
            is_young = self._now - attempt.placed_at < preemption.quantum_seconds
            if not is_young and other.preemptions < preemption.budget:
                if attempt_id not in going and other.spec.pool == job.spec.pool:
                    found.setdefault(attempt_id, attempt)

    def _add_lower(
        self, found: dict[str, Attempt], waiter: Facts, runners: Iterable[str], going: Container[str]
    ) -> None:
        """Add those whose place the policy of the queue gives to the waiter. They come in its order: the first that keeps
        its place is the last to be asked."""
        policy = self._rules.policy_of(waiter.job.spec.queue)
        for attempt_id in runners:
            attempt = self._world.attempts[attempt_id]
            runner = Facts(self._world.jobs[attempt.job], attempt, self._now, self._history)
            if not policy.preempts(waiter, runner):
                return
            if self._is_worth_it(runner):
                self._add(found, waiter.job, [attempt_id], going)

    def _add_lent(
        self, found: dict[str, Attempt], job: Job, queue: str, runners: Iterable[str], going: Container[str]
    ) -> None:
        """Add those that hold what their queue has borrowed, as far as it has borrowed. They need not have grown old."""
        mine, theirs = self._rules.queue(job.spec.queue), self._rules.queue(queue)
        if theirs.cohort != mine.cohort or theirs.name == mine.name:
            return
        over = {resource: self._books.over(theirs, resource) for resource in theirs.quotas}
        for attempt_id in runners:
            attempt = self._world.attempts[attempt_id]
            gives = self._books.held_by(attempt_id)
            if attempt_id not in going and any(over[resource] > 0 and gives.get(resource) for resource in over):
                if self._world.jobs[attempt.job].spec.pool == job.spec.pool:
                    found.setdefault(attempt_id, attempt)
                    for resource in over:
                        over[resource] -= gives.get(resource, 0)

    def _is_worth_it(self, runner: Facts) -> bool:
        """Whether it would hold its machines for longer than its stop and restart cost."""
        cost = self._history.overhead_seconds(self._rules.site.preemption.cost_seconds)
        remaining = self._history.remaining_seconds(runner.job, runner.ran_seconds)
        return remaining is None or remaining > cost

    def _spare(self, job: Job, amounts: Amounts, victims: list[Attempt]) -> list[Attempt]:
        """The victims without those who need not go; the last victim is spared first."""
        places = self.places(job, amounts, victims) or ()
        nodes = {place.node for place in places}
        near = [victim for victim in victims if any(place.node in nodes for place in victim.placements)]
        kept = near if near and self.places(job, amounts, near) is not None else victims
        for victim in reversed(kept[:]):
            others = [other for other in kept if other is not victim]
            if others and self.places(job, amounts, others) is not None:
                kept = others
        return kept
