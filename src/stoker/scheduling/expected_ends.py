"""When live attempts will likely have ended, soonest first, without asking all of them.

Attempts of whose like the same is known are kept together and worked out at once. While nothing new is learned of them, the first
of their ends only moves on, for who outlives what is known is expected to stay longer: so one that was worked out earlier is a
lower bound, and only those are worked out again of whom one may be next.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Attempt, Job

from .history import History

LIKELY = 0.75
"""Of the runs of its like, so many are over when a job is taken to be."""

MARGIN_SECONDS = 1e-3
"""A bound lies so much lower: sums of seconds since the epoch are exact to a microsecond."""

_HELD, _PLACED, _LIMIT = range(
    3
)  # rows of what is known of attempts: seconds held before, when placed, and the latest end
_FEW = 8


class ExpectedEnds:
    """The live attempts by when they will likely have ended."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._kin: dict[tuple[str, object], _Kin] = {}
        self._of: dict[str, _Kin] = {}  # attempt → with whom it is kept

    def follow(self, job: Job, attempt: Attempt) -> None:
        """A live attempt is as it is now."""
        kin = self._of.get(attempt.id)
        if kin is None:
            key = (job.spec.pool, self._history.alike(job))
            kin = self._of[attempt.id] = self._kin.setdefault(key, _Kin(*key))
        kin.put(job, attempt)

    def discard(self, attempt: str) -> None:
        """It lives no more."""
        kin = self._of.pop(attempt)
        kin.discard(attempt)
        if not len(kin):
            del self._kin[kin.pool, kin.alike]

    def soonest(self, pool: str, now: float) -> Soonest:
        """The ends of a pool in order, until anything changes."""
        return Soonest([kin for kin in self._kin.values() if kin.pool == pool], self._history, now)


class Soonest:
    """Ends in order, of which a few are looked at: no more is worked out than may be among them."""

    def __init__(self, kin: list[_Kin], history: History, now: float) -> None:
        self._count = sum(map(len, kin))
        self._in_order = _merged(kin, history, now)
        self._ordered: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return self._count

    def between(self, first: int, last: int) -> list[tuple[float, str]]:
        """Ends and attempts from a place to before another, as far as there are any; of equal ends, the first by id."""
        while len(self._ordered) < last:
            found = next(self._in_order, None)
            if found is None:
                break
            self._ordered.append(found)
        return self._ordered[first:last]


def _merged(kin: list[_Kin], history: History, now: float) -> Iterator[tuple[float, str]]:
    bounds = [(one.bound_seconds(history), number) for number, one in enumerate(kin)]
    heapq.heapify(bounds)
    firsts: list[tuple[float, str, int]] = []
    streams: dict[int, Iterator[tuple[float, str]]] = {}
    while bounds or firsts:
        if bounds and not (firsts and firsts[0][0] < bounds[0][0]):
            number = heapq.heappop(bounds)[1]
            streams[number] = kin[number].in_order(history, now)
        else:
            end, attempt, number = heapq.heappop(firsts)
            yield end, attempt
        follower = next(streams[number], None)
        if follower is not None:
            heapq.heappush(firsts, (*follower, number))


class _Kin:
    """Attempts of one pool of whose like the same is known."""

    def __init__(self, pool: str, alike: object) -> None:
        self.pool = pool
        self.alike = alike
        self._jobs: list[Job] = []
        self._attempts: list[str] = []
        self._places: dict[str, int] = {}
        self._known: NDArray[np.float64] = np.empty((3, _FEW))
        self._bound = -math.inf  # of all ends
        self._state: object = None  # of what is known, when that was found

    def __len__(self) -> int:
        return len(self._attempts)

    def put(self, job: Job, attempt: Attempt) -> None:
        """One is as it is now."""
        place = self._places.get(attempt.id)
        if place is None:
            place = self._places[attempt.id] = len(self._attempts)
            self._attempts.append(attempt.id)
            self._jobs.append(job)
            self._bound = -math.inf
            if place == self._known.shape[1]:
                self._known = np.concatenate([self._known, np.empty_like(self._known)], axis=1)
        started = attempt.placed_at if attempt.started_at is None else attempt.started_at
        self._jobs[place] = job
        self._known[:, place] = job.held_seconds, attempt.placed_at, started + job.spec.limits.running_seconds

    def discard(self, attempt: str) -> None:
        """It is none of these any more."""
        place, last = self._places.pop(attempt), len(self._attempts) - 1
        if place != last:
            self._attempts[place], self._jobs[place] = self._attempts[last], self._jobs[last]
            self._known[:, place] = self._known[:, last]
            self._places[self._attempts[place]] = place
        self._attempts.pop()
        self._jobs.pop()

    def bound_seconds(self, history: History) -> float:
        """No end is sooner than this."""
        return self._bound if self._state == history.state_of(self._jobs[0]) else -math.inf

    def in_order(self, history: History, now: float) -> Iterator[tuple[float, str]]:
        """Ends and attempts, the soonest first."""
        known = self._known[:, : len(self)]
        ran = known[_HELD] + now - known[_PLACED]
        remaining = history.remaining_seconds_of(self._jobs, ran, LIKELY)
        ends = known[_LIMIT] if remaining is None else np.minimum(known[_LIMIT], now + remaining)
        order = ends.argsort()
        self._state, self._bound = history.state_of(self._jobs[0]), float(ends[order[0]]) - MARGIN_SECONDS
        return self._stream(ends, order)

    def _stream(self, ends: NDArray[np.float64], order: NDArray[np.intp]) -> Iterator[tuple[float, str]]:
        first = 0
        while first < order.size:
            last = first + 1
            while last < order.size and ends[order[last]] == ends[order[first]]:
                last += 1
            end = float(ends[order[first]])
            yield from ((end, attempt) for attempt in sorted(self._attempts[place] for place in order[first:last]))
            first = last
