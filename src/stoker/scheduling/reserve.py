"""What is kept for a job that waits at the head: where and when it could start, going by how long jobs have run here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.core.job import Attempt, Job
from stoker.core.world import World

from .base import Placer
from .free import Free
from .history import History

LIKELY = 0.75
"""Of the runs of its like, so many are over when a job is taken to be."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for a job from a moment on."""

    job: str
    starts_at: float
    nodes: frozenset[str]


def reserve(
    job: Job, attempts: Iterable[Attempt], world: World, free: Free, placer: Placer, history: History, now: float
) -> Reservation | None:
    """The first moment at which the whole gang would fit, as one attempt after the other ends. None: never."""
    ends = sorted((expected_end(world.jobs[a.job], a, history, now), a.id) for a in attempts)
    low, high = 0, len(ends)  # it fits when the first `high` have ended, and not when the first `low` have
    if _nodes_after(job, ends[:high], world, free, placer) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _nodes_after(job, ends[:middle], world, free, placer) is None:
            low = middle
        else:
            high = middle
    nodes = _nodes_after(job, ends[:high], world, free, placer)
    return Reservation(job.id, ends[high - 1][0] if high else now, nodes or frozenset())


def expected_end(job: Job, attempt: Attempt, history: History, now: float) -> float:
    """When an attempt will likely have ended, at the latest by its limit."""
    started = attempt.placed_at if attempt.started_at is None else attempt.started_at
    limit = started + job.spec.limits.running_seconds
    remaining = history.remaining_seconds(job, job.held_seconds + now - attempt.placed_at, LIKELY)
    return limit if remaining is None else min(limit, now + remaining)


def expected_seconds(job: Job, history: History) -> float:
    """How long a job that waits will likely hold its machines, at most its limit."""
    remaining = history.remaining_seconds(job, job.held_seconds, LIKELY)
    return job.spec.limits.running_seconds if remaining is None else min(job.spec.limits.running_seconds, remaining)


def _nodes_after(
    job: Job, ended: list[tuple[float, str]], world: World, free: Free, placer: Placer
) -> frozenset[str] | None:
    mark = free.checkpoint()
    for _, attempt_id in ended:
        attempt = world.attempts[attempt_id]
        free.release(world.jobs[attempt.job].spec, attempt)
    places = placer.place(job.id, job.spec, free)
    free.rollback(mark)
    return None if places is None else frozenset(place.node for place in places)
