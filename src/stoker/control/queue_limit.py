"""How many jobs of one user may wait at the same time."""

from __future__ import annotations

import threading
from collections import Counter

from stoker.clock import Clock
from stoker.core.errors import TooMany
from stoker.core.states import JobState
from stoker.store.base import Store

_RECOUNT_SECONDS = 10.0


class QueueLimit:
    """Counts what each user submits, and counts anew how many of it still wait when that has reached the limit.

    So a submission costs nothing more, and who is at the limit costs one look at all jobs every ten seconds.
    """

    def __init__(self, store: Store, clock: Clock, most: int) -> None:
        """`most`: 0 is no limit."""
        self._store = store
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._at_most: Counter[str] = Counter()  # user → how many wait at most
        self._counted_at = -1.0  # never

    def take(self, owner: str) -> None:
        """One more. Raises TooMany."""
        if not self._most:
            return
        with self._lock:
            since = self._clock.now() - self._counted_at
            if self._counted_at < 0 or (self._at_most[owner] >= self._most and since >= _RECOUNT_SECONDS):
                self._count()
            if self._at_most[owner] >= self._most:
                raise TooMany(
                    f"{self._at_most[owner]} jobs of {owner} wait already",
                    fix="submit more when some have started; the setting is queued_jobs_per_user",
                    retry_after_seconds=_RECOUNT_SECONDS,
                )
            self._at_most[owner] += 1

    def _count(self) -> None:
        live = self._store.world().jobs.values()
        self._at_most = Counter(job.owner for job in live if job.state is JobState.QUEUED)
        self._counted_at = self._clock.now()
