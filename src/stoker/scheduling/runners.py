"""Who runs, from whom a place is taken first to whom it is taken last."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from enum import IntEnum

from stoker.core.job import Attempt, Job
from stoker.core.spec import JobSpec

from .base import Facts, Policy
from .history import History

Rank = tuple[tuple[float, ...], float, str]


class Kind(IntEnum):
    """How much being stopped loses a job."""

    PREEMPTIBLE = 0  # it said that it may be
    RESUMABLE = 1  # it goes on from a checkpoint
    OTHER = 2  # it begins anew

    @classmethod
    def of(cls, spec: JobSpec) -> Kind:
        """The kind of a job."""
        return cls.PREEMPTIBLE if spec.preemptible else cls.RESUMABLE if spec.resumable else cls.OTHER


class Runners:
    """Live attempts that nobody has asked to stop, by queue and kind, each in the order in which they are victims.

    Who comes last by the policy of the queue goes first; of these, who was placed last; then by id. Where a key changes by
    time alone, `refresh` puts its attempt in its new place.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[str, Kind, Rank]] = {}  # attempt id → where it stands
        self._order: dict[tuple[str, Kind], list[Rank]] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._ranks

    @property
    def queues(self) -> list[str]:
        """The queues of which somebody runs, by name."""
        return sorted({queue for (queue, _), ranks in self._order.items() if ranks})

    def of(self, queue: str, kind: Kind) -> Iterator[str]:
        """Attempt ids, first victim first."""
        return (rank[2] for rank in self._order.get((queue, kind), ()))

    def refresh(self, job: Job, attempt: Attempt, policy: Policy, history: History, now: float) -> None:
        """Put an attempt where it belongs now."""
        self.discard(attempt.id)
        queue, kind = job.spec.queue, Kind.of(job.spec)
        key = policy.key(Facts(job, attempt, now, history))
        rank = (tuple(-part for part in key), -attempt.placed_at, attempt.id)
        self._ranks[attempt.id] = (queue, kind, rank)
        insort(self._order.setdefault((queue, kind), []), rank)

    def discard(self, attempt: str) -> None:
        """It runs no more, or is about to stop."""
        found = self._ranks.pop(attempt, None)
        if found is not None:
            queue, kind, rank = found
            ranks = self._order[queue, kind]
            del ranks[bisect_left(ranks, rank)]
