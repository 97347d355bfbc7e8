"""What a decision is: changes to commit, and for whoever waits, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.changes import Ask, Change, MoveAttempt
from stoker.core.job import Attempt, Reason
from stoker.core.states import AttemptState, Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one decision, to be committed whole or not at all."""

    changes: tuple[Change, ...] = ()
    waits: Mapping[str, Reason] = field(default_factory=dict)  # job id → why it was not placed


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
