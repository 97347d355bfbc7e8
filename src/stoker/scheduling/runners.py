"""Who runs, from whom a place is taken first to whom it is taken last."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from stoker.core.job import Attempt, Job

from .base import Facts, Policy
from .history import History

Rank = tuple[int, tuple[float, ...], float, str]


class Runners:
    """Live attempts that nobody has asked to stop, in the order in which they are victims.

    Preemptible jobs first, then those that resume, then the rest; of these, who comes last by the policy of its queue;
    of these, who was placed last; then by id. Where a key changes by time alone, `refresh` puts its attempt in its new place.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}  # attempt id → its rank
        self._order: list[Rank] = []

    def __iter__(self) -> Iterator[str]:
        """Attempt ids, first victim first."""
        return (rank[3] for rank in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def refresh(self, job: Job, attempt: Attempt, policy: Policy, history: History, now: float) -> None:
        """Put an attempt where it belongs now."""
        self.discard(attempt.id)
        kind = 0 if job.spec.preemptible else 1 if job.spec.resumable else 2
        key = policy.key(Facts(job, attempt, now, history))
        rank = (kind, tuple(-part for part in key), -attempt.placed_at, attempt.id)
        self._ranks[attempt.id] = rank
        insort(self._order, rank)

    def discard(self, attempt: str) -> None:
        """It runs no more, or is about to stop."""
        rank = self._ranks.pop(attempt, None)
        if rank is not None:
            del self._order[bisect_left(self._order, rank)]
