"""How likely a job is to end soon, given how long it has run: learned from jobs that ended and from those that still run.

Run times go into spans that double. The chance to end within a span is drawn from ever narrower circles: a prior for heavy
tails, all jobs, gangs of the size, those of the user, and the job's neighbours: those of the same user and size that were
submitted shortly before and after it. Each circle outweighs the wider one the more it has seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Attempt, Job

FIRST_SECONDS = 60.0
LAST_SECONDS = 2e7
EDGES = (0.0, *(FIRST_SECONDS * 2.0**n for n in range(20)))
assert EDGES[-1] > LAST_SECONDS

PRIOR_SECONDS = 60.0
"""Before anything is known, a job that has run t seconds ends at the rate 1 / (t + 60 s): as likely within t as not."""

WEIGHT_OF_PRIOR, WEIGHT_OF_ALL, WEIGHT_OF_SIZE, WEIGHT_OF_USER = 30.0, 20.0, 20.0, 0.2
"""Against how many ends within a span each circle stands, seen from the next narrower one."""

NEIGHBOURS, NEIGHBOUR_WEIGHT, NEIGHBOUR_FADES, NEIGHBOUR_SECONDS = 6, 2.0, 0.85, 600.0
"""So many before and after; each next one counts 0.85 times as much, and half as much if 600 s lie between."""

RELEARN_ENDS, RELEARN_SHARE = 50, 0.02
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0)

Numbers = NDArray[np.float64]
_FLOORS: Numbers = np.array(EDGES)
_WIDTHS: Numbers = np.append(np.diff(_FLOORS), 10 * EDGES[-1])
_MIDDLES: Numbers = _FLOORS + np.append(_WIDTHS[:-1], EDGES[-1]) / 2
_PRIOR: Numbers = 1.0 / (_MIDDLES + PRIOR_SECONDS)

Circle = tuple[str, int]  # user, class of size


@dataclass(slots=True, eq=False)
class _Track:
    """What is known of one job."""

    job: str
    circle: Circle
    submitted_at: float
    held_seconds: float = 0.0  # by attempts that have ended
    placed_at: float | None = None
    has_ended: bool = False
    near: list[tuple[_Track, float]] = field(default_factory=list)  # neighbours, and how much each counts
    answer: tuple[int, float | None, float] | None = None  # the last index: of which span, as of when (None: any time)

    def ran_seconds(self, now: float) -> float:
        """How long it has held its machines."""
        return self.held_seconds if self.placed_at is None else self.held_seconds + now - self.placed_at


@dataclass(slots=True)
class _Seen:
    """What one circle has seen: by span, how many ended in it, and how long jobs ran in it."""

    ends: Numbers = field(default_factory=lambda: np.zeros(len(EDGES)))
    seconds: Numbers = field(default_factory=lambda: np.zeros(len(EDGES)))

    def add(self, runs: Numbers) -> None:
        """So many more have ended, after so many seconds each."""
        self.seconds += np.clip(runs[:, None] - _FLOORS, 0.0, _WIDTHS).sum(axis=0)
        np.add.at(self.ends, np.searchsorted(_FLOORS, runs, side="right") - 1, 1.0)


class Hazards:
    """Learns as jobs come, run and end."""

    def __init__(self) -> None:
        self._live: dict[str, _Track] = {}
        self._lines: dict[tuple[str, int], deque[_Track]] = {}  # user and GPUs → the newest, the newest first
        self._ended: dict[Circle, _Seen] = {}  # of jobs that have ended
        self._latest: dict[Circle, list[float]] = {}  # run times of those of them that no rate has been drawn from yet
        self._rates: dict[Circle, Numbers] = {}
        self._rates_of_size: dict[int, Numbers] = {}
        self._ends = 0
        self._fresh = 0
        self.before_change: Callable[[Collection[str]], None] = _nobody_listens
        """Told of live jobs whose index is about to change otherwise than by time, which lets it only grow."""

    def follow(self, job: Job, attempt: Attempt | None) -> None:
        """A job is as it is now."""
        track = self._live.get(job.id)
        if track is None:
            track = self._live[job.id] = self._newcomer(job)
        placed_at = None if attempt is None else attempt.placed_at
        if track.held_seconds != job.held_seconds or track.placed_at != placed_at:
            self._tell([other for other, _ in track.near if not other.has_ended])
            track.held_seconds, track.placed_at = job.held_seconds, placed_at

    def end(self, job: Job, ran_seconds: float, now: float) -> None:
        """A job has ended after having held its machines for so long in all."""
        track = self._live.pop(job.id, None) or self._newcomer(job)
        self._tell([other for other, _ in track.near if not other.has_ended])
        track.held_seconds, track.placed_at, track.has_ended, track.near = ran_seconds, None, True, []
        self._latest.setdefault(track.circle, []).append(ran_seconds)
        self._ends += 1
        self._fresh += 1
        if self._fresh >= RELEARN_ENDS and self._fresh >= RELEARN_SHARE * self._ends:
            self._fresh = 0
            self._tell(self._live.values())
            self._learn(now)

    def forget(self, job: str) -> None:
        """A job that is followed no more."""
        track = self._live.pop(job, None)
        if track is not None:
            track.near = []

    def index(self, job: Job, ran_seconds: float, now: float) -> float:
        """The Gittins index: over all moments at which one could stop, the least expected seconds of service per end."""
        first, track = _span(ran_seconds), self._live.get(job.id)
        if track is not None and track.answer is not None:
            of, asked_at, answer = track.answer
            if of == first and (asked_at is None or asked_at == now):
                return answer
        circle = track.circle if track is not None else _circle(job)
        rates = self._rates.get(circle)
        if rates is None:
            rates = self._rates_of_size.get(circle[1], _PRIOR)
        ends, seconds = np.full(len(EDGES) - first, WEIGHT_OF_USER), WEIGHT_OF_USER / rates[first:]
        if track is not None and track.near:
            self._add_neighbours(track, first, ends, seconds, now)
        rate, width = ends / seconds, _WIDTHS[first:]
        stays = np.exp(-rate * width)
        alive = np.empty_like(stays)
        alive[0] = 1.0
        np.multiply.accumulate(stays[:-1], out=alive[1:])
        done = alive * (1.0 - stays)
        answer = 1.0 / float((np.add.accumulate(done) / np.add.accumulate(done / rate)).max())
        if track is not None:
            runs_beside = any(other.placed_at is not None for other, _ in track.near)
            track.answer = (first, now if runs_beside else None, answer)
        return answer

    @staticmethod
    def span_ends_in(ran_seconds: float) -> float | None:
        """In how many seconds one that has run so long is in the next span. None: it is in the last."""
        span = _span(ran_seconds)
        return EDGES[span + 1] - ran_seconds if span + 1 < len(EDGES) else None

    def _newcomer(self, job: Job) -> _Track:
        track = _Track(job.id, _circle(job), job.submitted_at)
        line = self._lines.setdefault((job.owner, job.spec.accelerator_milli), deque(maxlen=NEIGHBOURS))
        self._tell([other for other in line if not other.has_ended])
        for lag, other in enumerate(line):
            apart = abs(job.submitted_at - other.submitted_at) / NEIGHBOUR_SECONDS
            weight = NEIGHBOUR_WEIGHT * NEIGHBOUR_FADES**lag / (1.0 + apart)
            track.near.append((other, weight))
            if not other.has_ended:
                other.near.append((track, weight))
        line.appendleft(track)
        return track

    def _tell(self, tracks: Collection[_Track]) -> None:
        self.before_change([track.job for track in tracks])
        for track in tracks:
            track.answer = None

    @staticmethod
    def _add_neighbours(track: _Track, first: int, ends: Numbers, seconds: Numbers, now: float) -> None:
        ran = np.array([other.ran_seconds(now) for other, _ in track.near])
        weights = np.array([weight for _, weight in track.near])
        seconds += weights @ np.minimum(np.maximum(ran[:, None] - _FLOORS[None, first:], 0.0), _WIDTHS[None, first:])
        for other, weight in track.near:
            if other.has_ended:
                span = _span(other.held_seconds)
                if span >= first:
                    ends[span - first] += weight

    def _learn(self, now: float) -> None:
        """Draw the rates anew, from all that ended and from what the living have outlived."""
        for circle, latest in self._latest.items():
            self._ended.setdefault(circle, _Seen()).add(np.array(latest))
        self._latest.clear()
        seen = {circle: _Seen(s.ends, s.seconds.copy()) for circle, s in self._ended.items()}
        for track in self._live.values():
            ran = track.ran_seconds(now)
            if ran >= FIRST_SECONDS:
                seconds = seen.setdefault(track.circle, _Seen()).seconds
                seconds[: _span(ran)] += _WIDTHS[: _span(ran)]
        everybody = _rates(seen.values(), WEIGHT_OF_PRIOR, _PRIOR)
        for size in range(len(_SIZES) + 1):
            of_size = [s for (_, other), s in seen.items() if other == size]
            self._rates_of_size[size] = _rates(of_size, WEIGHT_OF_ALL, everybody)
        for circle, s in seen.items():
            self._rates[circle] = _rates([s], WEIGHT_OF_SIZE, self._rates_of_size[circle[1]])


def _nobody_listens(jobs: Collection[str]) -> None:
    """Before anybody keeps keys."""


def _rates(seen: Iterable[_Seen], weight: float, otherwise: Numbers) -> Numbers:
    ends, seconds = np.full(len(EDGES), weight), weight / otherwise
    for one in seen:
        ends, seconds = ends + one.ends, seconds + one.seconds
    rates: Numbers = ends / seconds
    return rates


def _circle(job: Job) -> Circle:
    gpus = (job.spec.accelerator_milli or 1000) / 1000
    return job.owner, sum(gpus > size for size in _SIZES)


def _span(seconds: float) -> int:
    return bisect_right(EDGES, seconds) - 1
