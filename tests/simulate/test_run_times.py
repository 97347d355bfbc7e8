"""How long jobs may run, by chance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.spec import Limits
from stoker.scheduling.history import History
from stoker.simulate.run_times import (
    LONGEST_PRIOR_SECONDS,
    PRIOR_SECONDS,
    UNKNOWN,
    Known,
    Past,
    chance_of,
    expected_runs,
    total_seconds,
)
from tests.builders import a_job, an_attempt

from .futures import a_past

EQUAL = Past.of([600.0] * 10)
WEEK = 604800.0


def test_jobs_that_all_run_as_long_leave_nothing_to_chance() -> None:
    assert {total_seconds(EQUAL, 100.0, WEEK, chance) for chance in (0.0, 0.1, 0.5, 0.999)} == {600.0}


def test_only_those_count_that_ran_longer() -> None:
    past = Past.of([10.0, 20.0, 30.0, 400.0])
    assert total_seconds(past, 25.0, WEEK, 0.0) == 30.0
    assert [total_seconds(past, 0.0, WEEK, chance) for chance in (0.1, 0.3, 0.5, 0.7)] == [10.0, 20.0, 30.0, 400.0]


def test_one_in_as_many_outlives_them_all() -> None:
    past = Past.of([10.0, 20.0, 30.0])
    assert total_seconds(past, 0.0, WEEK, 0.74) == 30.0 < total_seconds(past, 0.0, WEEK, 0.9)


def test_who_has_outlived_all_runs_as_long_again_in_half_of_the_cases() -> None:
    assert total_seconds(EQUAL, 1000.0, WEEK, 0.5) == 2000.0
    assert total_seconds(EQUAL, 1000.0, 1500.0, 0.9) == 1500.0


def test_of_what_is_unknown_the_limit_is_the_most() -> None:
    assert total_seconds(UNKNOWN, 0.0, 3 * 3600.0, 0.5) == pytest.approx(PRIOR_SECONDS)
    assert total_seconds(UNKNOWN, 0.0, 3 * 3600.0, 1.0) == pytest.approx(3 * 3600.0)
    assert total_seconds(UNKNOWN, 0.0, 1e15, 1.0) == pytest.approx(LONGEST_PRIOR_SECONDS)
    assert total_seconds(UNKNOWN, 7200.0, 7200.0, 0.5) == 7200.0
    assert 7200.0 < total_seconds(UNKNOWN, 7200.0, WEEK, 0.1) < WEEK


@given(
    runs=st.lists(st.floats(1, 1e6), max_size=30).map(sorted),
    ran=st.floats(0, 1e6),
    limit=st.floats(1, 1e6),
    chances=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_a_greater_chance_is_never_shorter(runs: list[float], ran: float, limit: float, chances: list[float]) -> None:
    past = Past.of(runs)
    short, long = (total_seconds(past, ran, limit, chance) for chance in chances)
    assert min(ran, limit) * 0.999 <= short <= long * 1.000001 and long <= max(ran, limit)


def test_what_falls_to_a_job_is_always_the_same() -> None:
    job = a_job("j")
    assert chance_of(job, 3) == chance_of(replace(job, submitted_at=7.0), 3) != chance_of(job, 4)
    assert all(0 < chance_of(a_job(f"j{n}"), draw) < 1 for n in range(50) for draw in range(50))


def test_the_draws_are_spread_evenly() -> None:
    means = [sum(chance_of(a_job(f"j{n}", owner=f"u{n}"), draw) for n in range(300)) / 300 for draw in range(3)]
    assert means[1] < 0.3 < means[0] < 0.7 < means[2]


def test_a_forecast_teaches_nothing() -> None:
    known = Known.of(a_past(600.0, 600.0, 600.0), [a_job("old_9", gpus=4)])
    known.add(a_job("old_9", gpus=4), 1.0)
    known.add_overhead(5.0)
    assert known.runs(a_job("old_9", gpus=4)) == (600.0,) * 3 and known.overhead_seconds(30.0) == 30.0


@pytest.mark.parametrize(
    ("history", "basis"),
    [
        (a_past(60.0, 60.0, 60.0, name="j"), "from 3 runs of its name"),
        (a_past(60.0, 60.0, 60.0, name="other"), "from 3 runs of u with as many GPUs"),
        (a_past(60.0, 60.0, 60.0, owner="v"), "from 3 runs of others with as many GPUs"),
        (a_past(60.0, 60.0, 60.0, gpus=1), "from 3 runs of any kind; none with as many GPUs is known"),
        (History(), "nothing like it has run here: its limit is taken as the most"),
    ],
)
def test_from_what_it_is_known_is_told(history: History, basis: str) -> None:
    assert expected_runs(a_job("j_7", gpus=4), None, history, 0.0).basis == basis


def test_a_limit_counts_from_when_it_runs() -> None:
    job = a_job("j_1", gpus=4, limits=Limits(running_seconds=500.0))
    attempt = an_attempt(job, placed_at=1000.0)
    runs = expected_runs(job, attempt, a_past(900.0, 900.0, 900.0, name="j"), 1100.0)
    assert (runs.seconds.low, runs.seconds.high) == (500.0, 500.0)
