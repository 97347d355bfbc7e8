"""How long jobs have run here, and what that says of those that run or wait. Learned from ended jobs; never an oracle."""

from __future__ import annotations

import math
import re
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Job
from stoker.core.spec import JobSpec

from .hazards import Hazards

BACKLOG_LOOK_SECONDS = 60.0

ENOUGH = 3
"""Runs from which one may guess; with fewer, a wider circle is asked."""

MOST = 200
"""Runs that are kept of each circle: the newest."""

MOST_CIRCLES = 50_000
"""Of circles, the ones that were made first are forgotten when there are more."""

Numbers = NDArray[np.float64]
_Key = tuple[object, ...]
_COUNTERS = re.compile(r"_[0-9a-f]{4}$|[0-9]+")


class History:
    """Run times of ended jobs, by circles: who submitted it and what it is called, who, its queue, everybody; each by GPUs.

    Source of the circles: QSSF of Helios (SC'21), which estimates from user, name and GPUs.
    """

    def __init__(self) -> None:
        self.hazards = Hazards()
        self._circles: dict[_Key, _Circle] = {}
        self._overhead = _Circle()
        self.work_out_backlog: Callable[[float], float] = _no_end  # by who knows what waits and runs
        self._backlog, self._backlog_at = math.inf, -math.inf
        self._ladders: dict[tuple[_Key, ...], _Ladder] = {}
        self._places: dict[str, tuple[JobSpec, str, _Ladder]] = {}  # job id → its spec, its owner, its circles
        self._version = 0  # grows with every run that is learned

    def add(self, job: Job, ran_seconds: float) -> None:
        """Learn of a job that has ended by itself, after having held its machines for so long in all."""
        ladder = self._ladder(job)
        del self._places[job.id]
        if ran_seconds > 0:
            self._version += 1
            for key in ladder.keys:
                circle = self._circles.get(key)
                if circle is None:
                    circle = self._circles[key] = _Circle()
                circle.add(ran_seconds)
            while len(self._circles) > MOST_CIRCLES:
                del self._circles[next(iter(self._circles))]

    def forget(self, job: str) -> None:
        """A job has ended, or never ran: it is followed no more."""
        self._places.pop(job, None)
        self.hazards.forget(job)

    def add_overhead(self, seconds: float) -> None:
        """Learn what one stop and start has cost."""
        self._overhead.add(seconds)

    def overhead_seconds(self, otherwise: float) -> float:
        """What a stop and a start cost here: the median of what was measured."""
        runs = self._overhead.ordered
        return runs[len(runs) // 2] if len(runs) >= ENOUGH else otherwise

    def backlog_seconds(self, now: float) -> float:
        """How long the site would need for all that is left of what waits and runs, as far as is known. Looked at each minute."""
        if now >= self._backlog_at + BACKLOG_LOOK_SECONDS:
            self._backlog_at, self._backlog = now, self.work_out_backlog(now)
        return self._backlog

    def runs(self, job: Job) -> Sequence[float]:
        """Run times of the narrowest circle that has enough of them, ascending, in seconds. Empty: nothing is known."""
        found = self._places.get(job.id)
        known = found is not None and found[0] is job.spec and found[1] == job.owner
        ladder = found[2] if found is not None and known else self._ladder(job)  # asked of every live job in one round
        if ladder.version != self._version:
            self._climb(ladder)
        return ladder.runs

    def alike(self, job: Job) -> object:
        """Jobs of which this is equal have the same `runs` at any time."""
        return self._ladder(job)

    def state_of(self, job: Job) -> object:
        """Equal as long as nothing else is known of jobs like it."""
        ladder = self._ladder(job)
        if ladder.version != self._version:
            self._climb(ladder)
        return ladder.state

    def remaining_seconds(self, job: Job, ran_seconds: float, quantile: float = 0.5) -> float | None:
        """How much longer it will run, going by those that ran longer than it has by now. None: nothing is known."""
        runs = self.runs(job)
        if not runs:
            return None
        longer = len(runs) - bisect_right(runs, ran_seconds)
        if longer:
            at = len(runs) - longer + min(longer - 1, int(quantile * longer))
            return runs[at] - ran_seconds
        # It has outlived them all: then it is as likely to run as long again (Lindy).
        return 2 * quantile * ran_seconds

    def remaining_seconds_of(self, jobs: Sequence[Job], ran_seconds: Numbers, quantile: float) -> Numbers | None:
        """Remaining seconds of many jobs that are alike: `ran_seconds`, and what is returned, one for each."""
        runs = np.array(self.runs(jobs[0]))
        if not runs.size:
            return None
        at = np.searchsorted(runs, ran_seconds, side="right")
        longer = runs.size - at
        at = np.minimum(at + np.minimum(longer - 1, (quantile * longer).astype(np.intp)), runs.size - 1)
        return np.where(longer > 0, runs[at] - ran_seconds, 2 * quantile * ran_seconds)

    def outlives_in(self, job: Job, ran_seconds: float) -> float | None:
        """In how many seconds it will have outlived one more of those runs, and more is expected of it. None: it has them all."""
        runs = self.runs(job)
        at = bisect_right(runs, ran_seconds)
        return runs[at] - ran_seconds if at < len(runs) else None

    def _ladder(self, job: Job) -> _Ladder:
        """The circles of a job; found anew of one that asks what would be if it were another."""
        found = self._places.get(job.id)
        if found is None or found[0] is not job.spec or found[1] != job.owner:
            keys = tuple(_circles(job))
            ladder = self._ladders.get(keys)
            if ladder is None:
                if len(self._ladders) >= MOST_CIRCLES:
                    self._ladders.clear()
                ladder = self._ladders[keys] = _Ladder(keys)
            found = self._places[job.id] = (job.spec, job.owner, ladder)
        return found[2]

    def _climb(self, ladder: _Ladder) -> None:
        """Find the narrowest circle that has enough."""
        ladder.version, ladder.runs, ladder.state = self._version, (), None
        for key in ladder.keys:
            circle = self._circles.get(key)
            if circle is not None and len(circle.ordered) >= ENOUGH:
                ladder.runs, ladder.state = circle.ordered, (key, circle.count)
                return


def _no_end(now: float) -> float:
    return math.inf


class _Ladder:
    """The circles of jobs that are alike, from narrow to wide, and the runs of the first that has enough, as last found."""

    __slots__ = ("keys", "runs", "state", "version")

    def __init__(self, keys: tuple[_Key, ...]) -> None:
        self.keys = keys
        self.runs: Sequence[float] = ()
        self.state: object = None  # of those runs
        self.version = 0


class _Circle:
    """The newest run times of one circle, in order of time and in order of length."""

    __slots__ = ("_newest", "count", "ordered")

    def __init__(self) -> None:
        self._newest: deque[float] = deque()
        self.ordered: list[float] = []
        self.count = 0  # of all runs that it was told of

    def add(self, seconds: float) -> None:
        if len(self._newest) == MOST:
            oldest = self._newest.popleft()
            del self.ordered[bisect_right(self.ordered, oldest) - 1]
        self._newest.append(seconds)
        self.count += 1
        insort(self.ordered, seconds)


def _circles(job: Job) -> Iterator[_Key]:
    gpus = job.spec.accelerator_milli
    yield job.owner, stem(job), gpus
    yield job.owner, gpus
    yield job.spec.queue, None, gpus, None
    yield (gpus,)
    yield ()


def stem(job: Job) -> str:
    """What recurs in a job's name: all but the numbers in it."""
    return _COUNTERS.sub("#", job.id)
