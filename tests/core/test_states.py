"""The tables of states, and what a user sees of them."""

from __future__ import annotations

from itertools import product

import pytest

from stoker.core.errors import IllegalMove
from stoker.core.states import (
    ATTEMPT_MOVES,
    FATE,
    FINAL_JOB_STATES,
    FINAL_REPLICA_STATES,
    JOB_MOVES,
    REPLICA_MOVES,
    AttemptState,
    Cause,
    JobState,
    ReplicaState,
    Wish,
    check_move,
    shown_state,
)


def test_every_state_has_a_row_and_every_cause_a_fate() -> None:
    assert set(JOB_MOVES) == set(JobState)
    assert set(ATTEMPT_MOVES) == set(AttemptState)
    assert set(REPLICA_MOVES) == set(ReplicaState)
    assert set(FATE) == set(Cause)


def test_final_states_have_no_way_out() -> None:
    assert FINAL_JOB_STATES == {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
    assert FINAL_REPLICA_STATES == {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST}


def test_an_attempt_leaves_only_through_stopping() -> None:
    assert [before for before, moves in ATTEMPT_MOVES.items() if AttemptState.ENDED in moves] == [AttemptState.STOPPING]


@pytest.mark.parametrize(("before", "after"), list(product(JobState, JobState)))
def test_check_move_follows_the_table(before: JobState, after: JobState) -> None:
    if after in JOB_MOVES[before]:
        check_move(JOB_MOVES, before, after, "p/j")
    else:
        with pytest.raises(IllegalMove, match=f"p/j cannot go from {before} to {after}"):
            check_move(JOB_MOVES, before, after, "p/j")


@pytest.mark.parametrize(
    ("job", "wish", "attempt", "cause", "seen"),
    [
        (JobState.QUEUED, Wish.RUN, None, None, "QUEUED"),
        (JobState.QUEUED, Wish.CANCEL, None, None, "CANCELLING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.PLACED, None, "PREPARING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.STARTING, None, "PREPARING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.RUNNING, None, "RUNNING"),
        (JobState.ACTIVE, Wish.CANCEL, AttemptState.RUNNING, None, "CANCELLING"),
        (JobState.ACTIVE, Wish.CANCEL, AttemptState.STOPPING, Cause.CANCELLED, "CANCELLING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.STOPPING, Cause.TIMED_OUT, "CANCELLING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.STOPPING, Cause.COMPLETED, "RUNNING"),
        (JobState.ACTIVE, Wish.CANCEL, AttemptState.STOPPING, Cause.COMPLETED, "RUNNING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.STOPPING, Cause.PREEMPTED, "PREPARING"),
        (JobState.ACTIVE, Wish.RUN, AttemptState.STOPPING, Cause.LAUNCH_FAILED, "PREPARING"),
        (JobState.SUCCEEDED, Wish.CANCEL, AttemptState.ENDED, Cause.COMPLETED, "SUCCEEDED"),
        (JobState.CANCELLED, Wish.CANCEL, None, None, "CANCELLED"),
    ],
)
def test_shown_state(job: JobState, wish: Wish, attempt: AttemptState | None, cause: Cause | None, seen: str) -> None:
    assert shown_state(job, wish, attempt, cause) == seen
