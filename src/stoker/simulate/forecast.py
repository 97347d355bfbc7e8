"""When a waiting job will start: the future is played many times, with run times drawn from what has run here.

The same question about the same state of the site has the same answer: what falls to a job in a draw follows from its id.
Nobody who is yet to be submitted is in it. How much is played is bounded: a long queue is played fewer times and not as far,
and the answer says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stoker.core.job import Attempt, Job
from stoker.insight.outlook import Interval, Start

from .future import Future, Now, Outcome
from .run_times import HIGH, LOW, MIDDLE, chance_of, total_seconds

HORIZON_SECONDS = 90 * 86400.0
_FEW_JOBS = 100
_COARSEST = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be played for one answer. The work binds first, so that the answer does not hang on the machine's load."""

    draws: int = 40
    work: float = 2500.0  # of all draws together, about a quarter of a millisecond each
    seconds: float = 1.5  # of the wall clock: what has been played by then counts
    clock: Callable[[], float] = time.perf_counter

    def part(self, share: float) -> Budget:
        """A smaller one."""
        return replace(
            self, draws=max(5, int(self.draws * share)), work=self.work * share, seconds=self.seconds * share
        )


def forecast(now: Now, job: str, budget: Budget = Budget()) -> Start:
    """When this job of the World will likely get its machines, going by futures that are played."""
    outcomes, basis = played(now, job, budget)
    return start_of(now, outcomes, basis)


def played(now: Now, job: str, budget: Budget) -> tuple[list[Outcome], str]:
    """What became of a job in as many futures as the budget allows, and on what that rests. The last one may have been cut."""
    until, grain = now.at + HORIZON_SECONDS, grain_of(len(now.world.jobs))
    stop_at, left = budget.clock() + budget.seconds, budget.work
    outcomes: list[Outcome] = []
    drawn = _Drawn(now)
    while len(outcomes) < budget.draws and left > 0:
        future = Future(now, partial(drawn.total, draw=len(outcomes)))
        has_time = partial(_has_time, budget.clock, stop_at)
        found = future.play(job, most_work=left, until=until, grain=grain, has_time=has_time)
        left -= found.work
        if found.was_cut and outcomes:
            break  # what is left is not enough to play it once more
        outcomes.append(found)
        if found.started_at is not None and found.started_at <= now.at:
            break  # it starts at once: there is nothing to draw
    is_now = any(found.started_at is not None and found.started_at <= now.at for found in outcomes)
    return outcomes, _basis(now, len(outcomes), is_now, drawn)


def grain_of(jobs: int) -> float:
    """Within which part of the time gone by what happens counts as one moment: the longer the queue, the coarser."""
    return 0.0 if jobs <= _FEW_JOBS else min(_COARSEST, jobs / 9000)


def _has_time(clock: Callable[[], float], stop_at: float) -> bool:
    return clock() < stop_at


def start_of(now: Now, outcomes: Sequence[Outcome], basis: str) -> Start:
    """What these futures say together."""
    began = sorted(outcome.started_at for outcome in outcomes if outcome.started_at is not None)
    missing = len(outcomes) - len(began)
    moments = [*began, *[math.inf] * missing]
    middle = _at(moments, MIDDLE)
    nearest = min(
        (outcome for outcome in outcomes if outcome.started_at is not None),
        key=lambda outcome: abs((outcome.started_at or 0.0) - min(middle or math.inf, began[-1])),
        default=None,
    )
    is_now = bool(began) and began[0] <= now.at
    return Start(
        at=Interval(low=_at(moments, LOW), middle=middle, high=_at(moments, HIGH)),
        draws=len(outcomes),
        not_started=missing,
        played_until=min((o.played_until for o in outcomes if o.started_at is None), default=moments[-1]),
        basis=basis,
        waits_for="" if is_now else _most_often([o.let_in_by for o in outcomes if o.started_at is not None]),
        placements=nearest.placements if nearest else (),
    )


def _at(moments: Sequence[float], share: float) -> float | None:
    """The moment below which this share lies; None: nobody knows."""
    place = share * (len(moments) - 1)
    below, above = moments[math.floor(place)], moments[math.ceil(place)]
    if math.isinf(above):
        return None
    return below + (above - below) * (place - math.floor(place))


def _most_often(names: Sequence[str]) -> str:
    """The name that stands there in half of the cases or more."""
    best = max(sorted(set(names)), key=names.count, default="")
    return best if 2 * names.count(best) >= len(names) else ""


def _basis(now: Now, draws: int, is_now: bool, drawn: _Drawn) -> str:
    if now.hold:
        return "the admin has paused this server: nothing starts"
    if is_now:
        return "what it needs is free"
    jobs = [now.world.jobs[job] for job in sorted(drawn.jobs) if job in now.world.jobs]
    unknown = sum(not now.known.runs(job) for job in jobs)
    played = f"played {draws} time{'s' if draws != 1 else ''}"
    if not jobs:
        return played
    if unknown == len(jobs):
        return f"{played}; nothing like the jobs that run or are before it has run here: their limits are the most"
    told = f"{played}, going by how long jobs like those that run or are before it have run here"
    return f"{told}; of {unknown} of {len(jobs)} nothing is known but the limit" if unknown else told


class _Drawn:
    """Run times as they fall to jobs, draw by draw, and whose they were."""

    def __init__(self, now: Now) -> None:
        self._known = now.known
        self._at = now.at
        self.jobs: set[str] = set()

    def total(self, job: Job, attempt: Attempt, *, draw: int) -> float:
        """How long a job holds its machines in all, in this draw."""
        self.jobs.add(job.id)
        ran = job.held_seconds + max(0.0, self._at - attempt.placed_at)
        limit = job.held_seconds + job.spec.limits.running_seconds
        if attempt.started_at is not None and attempt.placed_at < self._at:
            limit += attempt.started_at - attempt.placed_at
        return total_seconds(self._known.past(job), ran, limit, chance_of(job, draw))
