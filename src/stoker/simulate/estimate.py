"""When a job will start, as well as that can be told within a budget: played, or for a long queue played and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stoker.core.job import Job
from stoker.insight.outlook import Interval, Start
from stoker.scheduling.free import Free
from stoker.scheduling.scheduler import Scheduler

from .counted import counted
from .forecast import Budget, played, start_of
from .future import Now, Outcome

ENOUGH_PLAYED = 12
"""With fewer, how wide the future is is counted."""

MOST_PLAYED = 2000
"""Jobs that run or wait. With more, one future alone would take too long."""

_FEWEST_COUNTED, _MOST_COUNTED = 5, 60_000  # draws; jobs in all draws together

ROUGH_LOW, ROUGH_HIGH = 0.5, 1.5
"""By so much what is counted alone is stretched: nothing is known of how far it is off."""


@dataclass(frozen=True, slots=True)
class Line:
    """Who is before a job, in order, and what is free."""

    ahead: Sequence[Job]
    free: Free

    @classmethod
    def of(cls, now: Now, scheduler: Scheduler, job: str) -> Line:
        """As a scheduler sees it."""
        order = scheduler.order(now.world, now.at)
        ahead = [now.world.jobs[other] for other in order[: order.index(job)]] if job in order else []
        return cls(ahead, scheduler.state.free)


def estimate(now: Now, job: Job, budget: Budget, line: Line | None = None) -> Start:
    """When a job of the World will likely get its machines. `line`: where it stands, if that is known already."""
    is_small = len(now.world.jobs) <= MOST_PLAYED
    outcomes, basis = played(now, job.id, budget) if is_small or now.hold else ([], "")
    started = [outcome for outcome in outcomes if outcome.started_at is not None]
    is_certain = any(outcome.started_at == now.at or outcome.is_over for outcome in outcomes)
    if now.hold or is_certain or len(outcomes) >= ENOUGH_PLAYED or not _is_cut(outcomes, budget):
        return start_of(now, outcomes, basis)
    return _counted(now, job, line or Line.of(now, now.scheduler(), job.id), started, basis, budget)


def _is_cut(outcomes: Sequence[Outcome], budget: Budget) -> bool:
    """Whether fewer futures were played than were wanted."""
    return len(outcomes) < budget.draws


def _counted(now: Now, job: Job, line: Line, started: Sequence[Outcome], basis: str, budget: Budget) -> Start:
    """Counted futures, moved by how far counting is off in those that were played, too."""
    draws = min(budget.draws, max(_FEWEST_COUNTED, _MOST_COUNTED // (len(now.world.attempts) + len(line.ahead) + 1)))
    crude = counted(now, job, line.ahead, line.free, draws)
    pairs = [(one.started_at, other.started_at) for one, other in zip(started, crude, strict=False)]
    off = [
        (one - now.at) / (other - now.at)
        for one, other in pairs
        if one is not None and other is not None and other > now.at
    ]
    if off:
        factors = [median(off)]
        told = f"{basis}; how wide the interval is was counted, in devices"
    else:
        factors = [ROUGH_LOW, 1.0, ROUGH_HIGH]
        told = f"too many jobs to play the future: their devices were counted {len(crude)} times, which is rough"
    moved = [_moved(now, outcome, factor) for outcome in crude for factor in factors]
    found = start_of(now, moved, told)
    nearest = started[0] if started else None  # of the luck that is neither good nor bad
    middle = median(outcome.started_at or 0.0 for outcome in started) if off else found.at.middle
    return Start(
        at=_within(found.at, middle),
        draws=len(crude),
        not_started=sum(outcome.started_at is None for outcome in crude),
        played_until=found.played_until,
        basis=told,
        waits_for=nearest.let_in_by if nearest else "",
        placements=nearest.placements if nearest else (),
    )


def _within(at: Interval, middle: float | None) -> Interval:
    """The interval with this middle: what was played knows the level better than what was counted."""
    if middle is not None:
        middle = max(middle, at.low or 0.0) if at.high is None else min(max(middle, at.low or 0.0), at.high)
    return Interval(low=at.low, middle=middle, high=at.high)


def _moved(now: Now, outcome: Outcome, factor: float) -> Outcome:
    if outcome.started_at is None:
        return outcome
    moment = now.at + factor * (outcome.started_at - now.at)
    return Outcome(started_at=moment, played_until=moment, work=outcome.work)
