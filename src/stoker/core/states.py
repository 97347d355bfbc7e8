"""The state machines, as tables. Nothing else in Stoker decides whether a move is legal.

`docs/states.md` is drawn from these tables. What a user sees is derived by `shown_state`, never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from .errors import IllegalMove


class JobState(StrEnum):
    """Where a job is, as the loop sees it."""

    QUEUED = "QUEUED"
    ACTIVE = "ACTIVE"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class AttemptState(StrEnum):
    """Where one try of the whole gang is."""

    PLACED = "PLACED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    ENDED = "ENDED"


class ReplicaState(StrEnum):
    """What was last seen of one process of the gang."""

    NOTHING = "NOTHING"
    STARTING = "STARTING"
    UP = "UP"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LOST = "LOST"


class Standing(StrEnum):
    """How a replica that is UP gets on."""

    GOING = ""
    QUIET = "QUIET"  # no output, no beat and no progress for longer than it may
    HELD = "HELD"  # its program has failed; its place is kept for somebody who looks


class Wish(StrEnum):
    """What the user wants of a job."""

    RUN = "RUN"
    CANCEL = "CANCEL"


class Cause(StrEnum):
    """Why an attempt stops. What follows from it stands in FATE."""

    COMPLETED = "COMPLETED"
    REPLICA_FAILED = "REPLICA_FAILED"  # by an error of its own: trying again would not help
    REPLICA_CRASHED = "REPLICA_CRASHED"  # by a signal or the like, which may pass
    LAUNCH_FAILED = "LAUNCH_FAILED"
    HUNG = "HUNG"  # no output, no beat and no progress for too long
    REPLICA_LOST = "REPLICA_LOST"
    NODE_LOST = "NODE_LOST"
    PREEMPTED = "PREEMPTED"
    DRAINED = "DRAINED"
    TIMED_OUT = "TIMED_OUT"
    WAITED_OUT = "WAITED_OUT"
    CANCELLED = "CANCELLED"


class Fate(StrEnum):
    """What an ended attempt means for its job."""

    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    CANCEL = "CANCEL"
    RETRY = "RETRY"  # back to the queue, counted; FAIL once the job's retries are used up
    REQUEUE = "REQUEUE"  # back to the queue, free of charge


class EndsWith(StrEnum):
    """Whose success makes the job's."""

    PRIMARY = "PRIMARY"  # the chief's; the rest is then stopped
    ALL = "ALL"  # every replica's


JOB_MOVES: Mapping[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.ACTIVE, JobState.CANCELLED, JobState.FAILED}),
    JobState.ACTIVE: frozenset({JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}

# Even PLACED leaves through STOPPING: it may be running already, in the gap between the engine's start and our next look.
ATTEMPT_MOVES: Mapping[AttemptState, frozenset[AttemptState]] = {
    AttemptState.PLACED: frozenset({AttemptState.STARTING, AttemptState.STOPPING}),
    AttemptState.STARTING: frozenset({AttemptState.RUNNING, AttemptState.STOPPING}),
    AttemptState.RUNNING: frozenset({AttemptState.STOPPING}),
    AttemptState.STOPPING: frozenset({AttemptState.ENDED}),
    AttemptState.ENDED: frozenset(),
}

# A replica only goes forward: a late report of STARTING about one that is UP is old news and changes nothing.
REPLICA_MOVES: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NOTHING: frozenset(ReplicaState) - {ReplicaState.NOTHING},
    ReplicaState.STARTING: frozenset(ReplicaState) - {ReplicaState.NOTHING, ReplicaState.STARTING},
    ReplicaState.UP: frozenset({ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST}),
    ReplicaState.SUCCEEDED: frozenset(),
    ReplicaState.FAILED: frozenset(),
    ReplicaState.LOST: frozenset(),
}

FATE: Mapping[Cause, Fate] = {
    Cause.COMPLETED: Fate.SUCCEED,
    Cause.REPLICA_FAILED: Fate.FAIL,
    Cause.REPLICA_CRASHED: Fate.RETRY,
    Cause.LAUNCH_FAILED: Fate.FAIL,
    Cause.HUNG: Fate.RETRY,
    Cause.REPLICA_LOST: Fate.RETRY,
    Cause.NODE_LOST: Fate.REQUEUE,
    Cause.PREEMPTED: Fate.REQUEUE,
    Cause.DRAINED: Fate.REQUEUE,
    Cause.TIMED_OUT: Fate.CANCEL,
    Cause.WAITED_OUT: Fate.CANCEL,
    Cause.CANCELLED: Fate.CANCEL,
}

FINAL_JOB_STATES = frozenset(state for state, moves in JOB_MOVES.items() if not moves)
FINAL_REPLICA_STATES = frozenset(state for state, moves in REPLICA_MOVES.items() if not moves)


State = TypeVar("State", bound=StrEnum)


def check_move(moves: Mapping[State, frozenset[State]], before: State, after: State, who: str) -> None:
    """Raise IllegalMove unless the table has `before → after`."""
    if after not in moves[before]:
        raise IllegalMove(f"{who} cannot go from {before} to {after}")


class ShownState(StrEnum):
    """What a user sees of a job (AI Platform v1, Job.state)."""

    QUEUED = "QUEUED"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"


def shown_state(
    job: JobState, wish: Wish, attempt: AttemptState | None, cause: Cause | None, *, is_ordered: bool = False
) -> ShownState:
    """What a user sees, from the job, the user's wish and the newest attempt (None: there is none yet).

    `is_ordered`: machines were ordered for it, and it starts when they are up.
    """
    if job in FINAL_JOB_STATES:
        return ShownState(job.value)
    if job is JobState.QUEUED:
        if wish is Wish.CANCEL:
            return ShownState.CANCELLING
        return ShownState.PREPARING if is_ordered else ShownState.QUEUED
    if attempt in (AttemptState.STOPPING, AttemptState.ENDED) and cause is not None:
        if FATE[cause] is Fate.CANCEL:
            return ShownState.CANCELLING
        is_between = FATE[cause] is Fate.REQUEUE or cause is Cause.LAUNCH_FAILED
        return ShownState.PREPARING if is_between else ShownState.RUNNING
    if wish is Wish.CANCEL:
        return ShownState.CANCELLING
    return ShownState.RUNNING if attempt is AttemptState.RUNNING else ShownState.PREPARING
