"""Who runs, and who would be stopped first for others."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator
from enum import IntEnum

from stoker.core.job import Attempt, Job
from stoker.core.world import World

from .base import Facts, Key
from .history import History
from .rules import Rules

Rank = tuple[tuple[float, ...], float, str]
_Age = tuple[float, str]


class Kind(IntEnum):
    """How much being stopped loses a job."""

    PREEMPTIBLE = 0  # it said that it may be
    RESUMABLE = 1  # it goes on from a checkpoint
    OTHER = 2  # it begins anew

    @classmethod
    def of(cls, job: Job) -> Kind:
        """The kind of a job."""
        return cls.PREEMPTIBLE if job.spec.preemptible else cls.RESUMABLE if job.is_resumable else cls.OTHER


_FEW = 64


class Runners:
    """Live attempts that nobody has asked to stop, by queue and kind, each in the order in which they are victims.

    Who has the greatest hold by the policy of the queue, which is the weakest, goes first; of these, who was placed last; then
    by id. An attempt is ranked when it has run for the quantum, and anew when its hold has changed by time; and only
    when somebody asks, so that nothing is worked out while nobody waits.
    """

    def __init__(self, rules: Rules, history: History) -> None:
        self._rules = rules
        self._history = history
        self._all: dict[tuple[str, Kind], list[_Age]] = {}  # the youngest first
        self._age: dict[str, _Age] = {}
        self._ranked: dict[tuple[str, Kind], list[Rank]] = {}
        self._rank: dict[str, Rank | None] = {}  # attempt id → its rank; None: it has none yet
        self._standing: dict[str, float] = {}
        self._where: dict[str, tuple[str, Kind]] = {}
        self._growing: list[tuple[float, str]] = []  # when who has run for the quantum
        self._turns: list[tuple[float, str]] = []  # when whose rank is worked out anew
        self.version = 0  # grows with every rank that is worked out, and everybody who comes

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._where

    @property
    def has_preemptible(self) -> bool:
        """Whether anybody runs who said that it may be stopped for any other."""
        return any(attempts for (_, kind), attempts in self._all.items() if kind is Kind.PREEMPTIBLE)

    @property
    def queues(self) -> list[str]:
        """The queues of which somebody runs, by name."""
        return sorted({queue for (queue, _), attempts in self._all.items() if attempts})

    def add(self, job: Job, attempt: Attempt) -> None:
        """One more runs."""
        if attempt.id not in self._where:
            where = self._where[attempt.id] = (job.spec.queue, Kind.of(job))
            age = self._age[attempt.id] = (-attempt.placed_at, attempt.id)
            insort(self._all.setdefault(where, []), age)
            self._rank[attempt.id] = None
            self.version += 1
            heapq.heappush(self._growing, (attempt.placed_at + self._rules.site.preemption.quantum_seconds, attempt.id))
            if (
                len(self._growing) > 2 * len(self._where) + _FEW
            ):  # where nobody wants another's place, nobody looks here
                self._growing = [turn for turn in self._growing if turn[1] in self._where]
                heapq.heapify(self._growing)

    def discard(self, attempt: str) -> None:
        """It runs no more, or is about to stop."""
        where = self._where.pop(attempt, None)
        if where is not None:
            ages = self._all[where]
            del ages[bisect_left(ages, self._age.pop(attempt))]
            self._unrank(attempt, where)
            del self._rank[attempt]
            self._standing.pop(attempt, None)

    def all_of(self, queue: str, kind: Kind) -> list[str]:
        """All of a queue and kind, however young, the youngest first."""
        return [attempt for _, attempt in self._all.get((queue, kind), ())]

    def grown(self, queue: str, kind: Kind) -> Iterator[str]:
        """The attempts that have run for the quantum, first victim first."""
        return (rank[2] for rank in self._ranked.get((queue, kind), ()))

    def standing(self, attempt: str) -> float:
        """The first part of its key, as last worked out: the greater, the later its turn. 0: it has none."""
        return self._standing.get(attempt, 0.0)

    @property
    def all_grown(self) -> Iterator[str]:
        """All that have run for the quantum, in no order that matters."""
        return (attempt for attempt, rank in self._rank.items() if rank is not None)

    def weaker(self, queue: str, kind: Kind, claim: Key) -> Iterator[str]:
        """Of those, the ones whose hold is weaker than this claim."""
        for rank in self._ranked.get((queue, kind), ()):
            if not claim < tuple(-part for part in rank[0]):
                return
            yield rank[2]

    def refresh(self, world: World, now: float) -> None:
        """Work out the ranks whose turn has come."""
        if not (_is_due(self._growing, now) or _is_due(self._turns, now)):
            return
        for attempt_id in [*_due(self._growing, now), *_due(self._turns, now)]:
            where = self._where.get(attempt_id)
            if where is None:
                continue
            attempt = world.attempts[attempt_id]
            policy, facts = self._rules.policy_of(where[0]), Facts(world.jobs[attempt.job], attempt, now, self._history)
            hold = policy.hold(facts)
            self._standing[attempt_id] = next(iter(policy.key(facts)), 0.0)
            self._unrank(attempt_id, where)
            if hold is None:
                hold = ()  # nobody of its queue has its place, but it may be one that said it gives way
            self.version += 1
            rank = self._rank[attempt_id] = (tuple(-part for part in hold), -attempt.placed_at, attempt_id)
            insort(self._ranked.setdefault(where, []), rank)
            turn = policy.changes_in(facts)
            if turn is not None:
                heapq.heappush(self._turns, (now + max(1.0, turn), attempt_id))

    @property
    def next_grown_at(self) -> float | None:
        """When the next has run for the quantum."""
        return self._next(self._growing)

    @property
    def next_turn_at(self) -> float | None:
        """When the next rank is to be worked out anew."""
        return self._next(self._turns)

    def _next(self, heap: list[tuple[float, str]]) -> float | None:
        while heap and heap[0][1] not in self._where:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _unrank(self, attempt: str, where: tuple[str, Kind]) -> None:
        rank = self._rank[attempt]
        if rank is not None:
            ranks = self._ranked[where]
            del ranks[bisect_left(ranks, rank)]
            self._rank[attempt] = None


def _is_due(heap: list[tuple[float, str]], now: float) -> bool:
    return bool(heap) and heap[0][0] <= now


def _due(heap: list[tuple[float, str]], now: float) -> Iterator[str]:
    while heap and heap[0][0] <= now:
        yield heapq.heappop(heap)[1]
