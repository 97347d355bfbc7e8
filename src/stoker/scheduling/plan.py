"""What a decision is: changes to commit, and for whoever waits, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stoker.core.changes import Ask, Change, MoveAttempt
from stoker.core.ids import attempt_id
from stoker.core.job import Attempt, Job, Placement, Reason, Replica
from stoker.core.node import Node
from stoker.core.states import AttemptState, Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one decision, to be committed whole or not at all."""

    changes: tuple[Change, ...] = ()
    waits: Mapping[str, Reason] = field(default_factory=dict)  # job id → why it was not placed


def new_attempt(job: Job, places: tuple[Placement, ...], nodes: Sequence[Node], now: float) -> Attempt:
    """The next attempt of a job, on these places. `nodes`: of each place."""
    number = job.tries + 1
    return Attempt(
        id=attempt_id(job.id, number),
        job=job.id,
        number=number,
        engine=nodes[0].engine,
        lease_seconds=max(node.lease_seconds for node in nodes),
        placements=places,
        placed_at=now,
        replicas=tuple(Replica(role=place.role, index=place.index) for place in places),
    )


def stop_for(attempt: Attempt, whom: str, now: float) -> list[Change]:
    """Ask an attempt to stop for another job, and what follows from that at once."""
    return [
        Ask(attempt=attempt.id, cause=Cause.PREEMPTED),
        MoveAttempt(
            attempt=attempt.id,
            before=attempt.state,
            after=AttemptState.STOPPING,
            at=now,
            cause=Cause.PREEMPTED,
            detail=f"It made room for {whom}.",
        ),
    ]
