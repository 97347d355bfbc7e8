"""Whose places one that waits may have, and which of them are enough for its whole gang."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stoker.core.job import Attempt, Job, Placement
from stoker.core.site import Victims
from stoker.core.world import World

from .base import Facts
from .books import Amounts, Books
from .free import Free
from .history import History
from .rules import Rules

MOST_VICTIMS = 512
"""Attempts that are considered for one job: more would make one decision slow."""


class Preempter:
    """Looks for victims. Nobody is stopped in vain: the whole gang is placed where they are before one is asked to go."""

    def __init__(self, rules: Rules, world: World, free: Free, books: Books, history: History, now: float) -> None:
        self._rules = rules
        self._world = world
        self._free = free
        self._books = books
        self._history = history
        self._now = now

    def find(self, job: Job, amounts: Amounts, runners: Iterable[str]) -> tuple[Attempt, ...]:
        """The first victims whose places let the whole gang in, as few as it takes. Empty: there are none."""
        candidates = self._candidates(job, amounts, runners)
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

    def _candidates(self, job: Job, amounts: Amounts, runners: Iterable[str]) -> list[Attempt]:
        """Those that may be stopped for this job, first victim first."""
        found: list[Attempt] = []
        waiter = Facts(job, None, self._now, self._history)
        queue = self._rules.queue(job.spec.queue)
        reclaims = self._books.is_within_its_own(queue, amounts)
        taken: dict[str, dict[str, int]] = {}  # queue → what the victims so far would give back
        for attempt_id in runners:
            attempt = self._world.attempts[attempt_id]
            other = self._world.jobs[attempt.job]
            if other.spec.pool != job.spec.pool:
                continue
            if self._may_stop(waiter, Facts(other, attempt, self._now, self._history)) or (
                reclaims and self._is_lent(job, other, attempt, taken)
            ):
                found.append(attempt)
                if len(found) == MOST_VICTIMS:
                    break
        return found

    def _may_stop(self, waiter: Facts, runner: Facts) -> bool:
        """Whether the waiter's claim is better, and the runner may be stopped at all."""
        preemption, other, attempt = self._rules.site.preemption, runner.job, runner.attempt
        assert attempt is not None
        if self._is_too_young(other, attempt) or other.preemptions >= preemption.budget:
            return False
        if other.spec.preemptible and not waiter.job.spec.preemptible:
            return True
        if preemption.victims is Victims.NOBODY:
            return False
        if preemption.victims is Victims.PREEMPTIBLE and not other.spec.preemptible:
            return False
        if preemption.victims is Victims.RESUMABLE and not other.spec.gives_way:
            return False
        if other.spec.queue != waiter.job.spec.queue:
            return False
        return self._rules.policy_of(other.spec.queue).preempts(waiter, runner) and self._is_worth_it(runner)

    def _is_too_young(self, job: Job, attempt: Attempt) -> bool:
        return self._now - attempt.placed_at < self._rules.site.preemption.quantum_seconds

    def _is_worth_it(self, runner: Facts) -> bool:
        """Whether it would hold its machines for longer than its stop and restart cost."""
        cost = self._history.overhead_seconds(self._rules.site.preemption.cost_seconds)
        remaining = self._history.remaining_seconds(runner.job, runner.ran_seconds)
        return remaining is None or remaining > cost

    def _is_lent(self, job: Job, other: Job, attempt: Attempt, taken: dict[str, dict[str, int]]) -> bool:
        """Whether the other holds what its queue has borrowed; counting what is to be given back already."""
        mine, theirs = self._rules.queue(job.spec.queue), self._rules.queue(other.spec.queue)
        if not mine.cohort or theirs.cohort != mine.cohort or theirs.name == mine.name:
            return False
        gives = self._books.held_by(attempt.id)
        back = taken.setdefault(theirs.name, {})
        for resource in theirs.quotas:
            if gives.get(resource) and self._books.over(theirs, resource) - back.get(resource, 0) > 0:
                for given, amount in gives.items():
                    back[given] = back.get(given, 0) + amount
                return True
        return False

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
