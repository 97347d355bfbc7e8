"""Where the time of a job's accelerators went: every second in one state, and all of them together the total."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.job import Attempt
from stoker.core.spec import Limits
from stoker.core.states import Cause, Standing
from stoker.scheduling.ledger import Spent, ledger, spent
from tests.builders import a_job, an_attempt

JOB = a_job(gpus=4, limits=Limits(hang_seconds=60))


def an_ended_attempt(cause: Cause, **changes: object) -> Attempt:
    """Placed at 100, running at 110, told to stop at 300, gone at 305."""
    times = {"placed_at": 100.0, "started_at": 110.0, "stopping_at": 300.0, "ended_at": 305.0}
    return replace(an_attempt(JOB, placed_at=100.0), cause=cause, **{**times, **changes})  # type: ignore[arg-type]


def told(attempt: Attempt, now: float = 1000.0, **spec: object) -> dict[str, float]:
    """What is not zero."""
    job = replace(JOB, spec=replace(JOB.spec, **spec))  # type: ignore[arg-type]
    return {str(what): seconds for what, seconds in spent(job, attempt, now).items() if seconds}


def test_what_an_ended_attempt_did_lasts_if_it_was_done_or_goes_on_from_there() -> None:
    done = {"starting": 10, "productive": 190, "stopping": 5}
    assert told(an_ended_attempt(Cause.COMPLETED)) == done
    assert told(an_ended_attempt(Cause.PREEMPTED), resumable=True) == done
    assert told(an_ended_attempt(Cause.PREEMPTED)) == {"starting": 10, "lost": 190, "stopping": 5}


def test_one_that_lives_has_lost_nothing_so_far() -> None:
    lives = an_attempt(JOB, placed_at=100.0)
    assert told(replace(lives, started_at=110.0), now=150.0) == {"starting": 10, "productive": 40}
    assert told(replace(lives, started_at=None), now=150.0) == {"starting": 50}


@pytest.mark.parametrize(
    ("standing", "cause", "expected"),
    [
        (Standing.HELD, Cause.REPLICA_FAILED, {"starting": 10, "lost": 90, "held": 100, "stopping": 5}),
        (Standing.QUIET, Cause.HUNG, {"starting": 10, "lost": 30, "hanging": 160, "stopping": 5}),
        (Standing.QUIET, Cause.PREEMPTED, {"starting": 10, "lost": 190, "stopping": 5}),
    ],
)
def test_time_in_which_it_was_held_or_hung(standing: Standing, cause: Cause, expected: dict[str, float]) -> None:
    attempt = an_ended_attempt(cause)
    replicas = tuple(replace(r, standing=standing, standing_at=200.0) for r in attempt.replicas)
    assert told(replace(attempt, replicas=replicas)) == expected


MOMENTS = st.one_of(st.none(), st.floats(0, 1e6))


@given(
    st.sampled_from(Cause), st.sampled_from(Standing), st.floats(0, 1e6), MOMENTS, MOMENTS, MOMENTS, st.floats(0, 1e6)
)
def test_the_states_add_up_to_the_total_whatever_the_moments(
    cause: Cause,
    standing: Standing,
    placed: float,
    started: float | None,
    stopping: float | None,
    ended: float | None,
    now: float,
) -> None:
    attempt = an_ended_attempt(cause, placed_at=placed, started_at=started, stopping_at=stopping, ended_at=ended)
    replicas = tuple(replace(r, standing=standing, standing_at=now / 2) for r in attempt.replicas)
    found = ledger(JOB, [replace(attempt, replicas=replicas)] * 2, now)
    assert all(seconds >= 0 for seconds in found.values()) and set(found) == set(Spent)
    assert sum(found.values()) == pytest.approx(2 * (max(placed, now if ended is None else ended) - placed))
