"""Where the time of a job's accelerators went: every second of an attempt is in exactly one state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from stoker.core.job import Attempt, Job
from stoker.core.states import Cause, Standing


class Spent(StrEnum):
    """What a second of an attempt was spent on."""

    STARTING = "starting"  # from its places until every replica ran
    PRODUCTIVE = "productive"  # the program ran, and what it did lasts
    LOST = "lost"  # the program ran, and has to do it again
    HANGING = "hanging"  # it stood still until that was known
    HELD = "held"  # its place was kept after a failure
    STOPPING = "stopping"  # until its places were free


def ledger(job: Job, attempts: Iterable[Attempt], now: float) -> dict[Spent, float]:
    """Seconds of all attempts so far, by what they were spent on."""
    total = dict.fromkeys(Spent, 0.0)
    for attempt in attempts:
        for what, seconds in spent(job, attempt, now).items():
            total[what] += seconds
    return total


def spent(job: Job, attempt: Attempt, now: float) -> Mapping[Spent, float]:
    """The seconds of one attempt, by what they were spent on. Together they are all that it held its places for."""
    end = max(attempt.placed_at, now if attempt.ended_at is None else attempt.ended_at)
    stop = _within(attempt.placed_at, attempt.stopping_at, end)
    start = _within(attempt.placed_at, attempt.started_at, stop)
    ends_well = attempt.stopping_at is None or attempt.cause is Cause.COMPLETED or job.is_resumable
    turn, after = _turn(job, attempt)
    turn = _within(start, turn, stop)
    found = dict.fromkeys(Spent, 0.0)
    found[Spent.STARTING] = start - attempt.placed_at
    found[Spent.PRODUCTIVE if ends_well else Spent.LOST] = turn - start
    found[after] += stop - turn
    found[Spent.STOPPING] = end - stop
    return found


def _turn(job: Job, attempt: Attempt) -> tuple[float | None, Spent]:
    """When it did no more, though it had not stopped, and what came then."""
    held = [r.standing_at for r in attempt.replicas if r.standing is Standing.HELD]
    if held:
        return min(held), Spent.HELD
    if attempt.cause is Cause.HUNG:
        quiet = [r.standing_at for r in attempt.replicas if r.standing is Standing.QUIET]
        return max(quiet, default=attempt.placed_at) - job.spec.limits.hang_seconds, Spent.HANGING
    return None, Spent.LOST


def _within(first: float, moment: float | None, last: float) -> float:
    """A moment between two others; the last, where there is none."""
    return last if moment is None else min(max(first, moment), last)
