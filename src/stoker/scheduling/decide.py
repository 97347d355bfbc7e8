"""One decision: what follows from what was seen, then who of the queue is placed, and why the rest waits."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.changes import Change, Explain, MoveJob, Open
from stoker.core.ids import attempt_id
from stoker.core.job import Attempt, Job, Placement, Reason, Replica
from stoker.core.node import Node
from stoker.core.spec import JobSpec
from stoker.core.states import JobState, Wish
from stoker.core.world import World

from .base import Placer, Policy
from .explain import why_no_place
from .free import Free
from .plan import Plan
from .settle import settle

HOLDS_NOBODY_BACK = ("BACKOFF", "NO_SUCH_NODES")
"""Reasons that only time or other nodes can take away: whoever comes after does not wait for that."""


def decide(world: World, now: float, policy: Policy, placer: Placer, *, hold: bool = False) -> Plan:
    """What is to be written next. `hold`: nothing new is placed (an admin's pause)."""
    # 1. What follows from what was seen. Places that it frees are seen free at the next decision, when it is written.
    changes: list[Change] = list(settle(world, now))
    touched = {change.job for change in changes if isinstance(change, MoveJob)}
    # 2. Who wants a place, in order.
    queued = [
        job
        for job in world.jobs.values()
        if job.state is JobState.QUEUED and job.wish is Wish.RUN and job.id not in touched
    ]
    if not queued:
        return Plan(changes=tuple(changes))
    free = Free.of(world)
    waiting: list[Job] = []
    waits: dict[str, Reason] = {}
    for job in policy.order(world, queued, now):
        # 3. A place for the whole gang, or the reason why not.
        found = _place(job, now, hold, policy, placer, waiting, free, world)
        if isinstance(found, Reason):
            waits[job.id] = found
            if found.code not in HOLDS_NOBODY_BACK:
                waiting.append(job)
            if found != job.waits:
                changes.append(Explain(job=job.id, reason=found))
        else:
            changes.append(Open(attempt=_attempt(job, found, world, now)))
    return Plan(changes=tuple(changes), waits=waits)


def ever_fits(spec: JobSpec, nodes: Iterable[Node], placer: Placer) -> bool:
    """Whether the nodes could hold this job if nobody else held anything."""
    return placer.place("", spec, Free.empty(nodes)) is not None


def _place(
    job: Job, now: float, hold: bool, policy: Policy, placer: Placer, waiting: list[Job], free: Free, world: World
) -> tuple[Placement, ...] | Reason:
    if hold:
        return Reason(
            code="HELD", text="the admin has paused this server: nothing is started", action="restart it without --hold"
        )
    if now < job.not_before:
        return Reason(
            code="BACKOFF",
            text=f"it failed {job.failures} time(s) and is tried again shortly. {job.message}".rstrip(),
            action="nothing to do; cancel it if the cause will not go away by itself",
        )
    behind = policy.admits(job, waiting)
    if behind is not None:
        return behind
    return placer.place(job.id, job.spec, free) or why_no_place(job, world, free, placer)


def _attempt(job: Job, places: tuple[Placement, ...], world: World, now: float) -> Attempt:
    number = job.tries + 1
    return Attempt(
        id=attempt_id(job.id, number),
        job=job.id,
        number=number,
        engine=world.nodes[places[0].node].engine,
        placements=places,
        placed_at=now,
        replicas=tuple(Replica(role=place.role, index=place.index) for place in places),
    )
