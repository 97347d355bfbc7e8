"""What is kept for a job that waits at the head: where and when it could start, going by how long jobs have run here."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.job import Job
from stoker.core.world import World

from .base import Placer
from .expected_ends import LIKELY, ExpectedEnds, Soonest
from .free import Free
from .history import History


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for a job from a moment on."""

    job: str
    starts_at: float
    nodes: frozenset[str]


def reserve(job: Job, world: World, free: Free, placer: Placer, ends: ExpectedEnds, now: float) -> Reservation | None:
    """The first moment at which the whole gang would fit, as one attempt of its pool after the other ends. None: never."""
    return _reserved(job, world, free, placer, ends.soonest(job.spec.pool, now), now)


def _reserved(job: Job, world: World, free: Free, placer: Placer, ends: Soonest, now: float) -> Reservation | None:
    begin = free.checkpoint()
    marks = [begin]  # by how many have been taken away
    found = _nodes(job, free, placer)
    if found is None:
        fits_not, step = 0, 1
        while found is None and fits_not < len(ends):  # ever more of them, until it fits
            _take_away(ends.between(fits_not, fits_not + step), world, free, marks)
            found = _nodes(job, free, placer)
            if found is None:
                fits_not, step = len(marks) - 1, 2 * step
        fits = len(marks) - 1
        while found is not None and fits - fits_not > 1:  # and then as few of them as will do
            middle = (fits + fits_not) // 2
            if len(marks) - 1 > middle:
                free.rollback(marks[middle])
                del marks[middle + 1 :]
            else:
                _take_away(ends.between(len(marks) - 1, middle), world, free, marks)
            fewer = _nodes(job, free, placer)
            if fewer is None:
                fits_not = middle
            else:
                fits, found = middle, fewer
        starts_at = ends.between(fits - 1, fits)[0][0] if found is not None else now
    else:
        starts_at = now
    free.rollback(begin)
    return None if found is None else Reservation(job.id, starts_at, found)


def expected_seconds(job: Job, history: History) -> float:
    """How long a job that waits will likely hold its machines, at most its limit."""
    remaining = history.remaining_seconds(job, job.held_seconds, LIKELY)
    return job.spec.limits.running_seconds if remaining is None else min(job.spec.limits.running_seconds, remaining)


def _take_away(ended: list[tuple[float, str]], world: World, free: Free, marks: list[int]) -> None:
    for _, attempt_id in ended:
        attempt = world.attempts[attempt_id]
        free.release(world.jobs[attempt.job].spec, attempt)
        marks.append(free.checkpoint())


def _nodes(job: Job, free: Free, placer: Placer) -> frozenset[str] | None:
    """The nodes on which it would be now. None: it would not fit."""
    mark = free.checkpoint()
    places = placer.place(job.id, job.spec, free)
    free.rollback(mark)
    return None if places is None else frozenset(place.node for place in places)
