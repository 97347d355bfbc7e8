"""The figures of a replay."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from stoker.simulate.bounds import bounds
from stoker.simulate.metrics import Run, Spread, measure, percentile


def a_run(
    name: str = "j", *, at: float = 0, start: float = 0, end: float = 10, run: float = 10, **other: object
) -> Run:
    """One job that ended."""
    values = {"name": name, "submitted_at": at, "first_started_at": start, "ended_at": end, "run_seconds": run}
    return Run(**{**values, "gpus_milli": 1000, **other})  # type: ignore[arg-type]


def test_a_job_that_nothing_held_up() -> None:
    found = measure([a_run(gpus_milli=2000)], 2)
    assert found.all.jct_seconds == Spread(mean=10, p90=10, p99=10, largest=10)
    assert found.all.wait_seconds.largest == found.all.start_wait_seconds.largest == 0
    assert (found.all.bounded_slowdown.mean, found.all.ftf.mean, found.all.unfair_share) == (1, 1, 0)
    assert (found.average_jct_ratio, found.makespan_ratio, found.utilisation) == (1, 1, 1)
    assert found.all.gpu_hours == pytest.approx(20 / 3600)


def test_waiting_is_all_but_the_run_time_and_start_wait_only_its_beginning() -> None:
    """Two starts with a minute of work lost between them."""
    found = measure([a_run(at=5, start=15, end=175, run=100, preemptions=1, failures=2)], 1).all
    assert (found.jct_seconds.mean, found.wait_seconds.mean, found.start_wait_seconds.mean) == (170, 70, 10)
    assert (found.bounded_slowdown.mean, found.makespan_seconds) == (1.7, 175)
    assert (found.preemptions_per_job, found.failures_per_job) == (1, 2)


def test_jobs_of_a_moment_do_not_decide_the_slowdown() -> None:
    assert measure([a_run(end=20, run=1)], 1).all.bounded_slowdown.mean == 2
    assert measure([a_run(end=5, run=1)], 1).all.bounded_slowdown.mean == 1


def test_fairness_is_against_an_equal_share_of_the_whole_trace() -> None:
    """Three jobs on two GPUs: each may take 1.5 times as long."""
    runs = [a_run("a", end=10, queue="x"), a_run("b", end=15, queue="x"), a_run("c", end=16, queue="y")]
    found = measure(runs, 2)
    assert found.all.ftf.largest == pytest.approx(16 / 15) and found.all.unfair_share == pytest.approx(1 / 3)
    assert found.queues["y"].ftf.mean == pytest.approx(16 / 15) and found.queues["x"].unfair_share == 0
    assert measure(runs, 64).all.ftf.largest == 1.6


def test_queues_have_their_own_figures() -> None:
    found = measure([a_run("a", queue="x"), a_run("b", queue="y", end=30), a_run("c", queue="y", end=50)], 2).queues
    assert {name: (queue.jobs, queue.jct_seconds.mean) for name, queue in found.items()} == {"x": (1, 10), "y": (2, 40)}


def test_percentiles_are_one_of_the_figures() -> None:
    assert [percentile(range(100), share) for share in (0, 0.5, 0.9, 0.99, 1)] == [0, 50, 90, 99, 99]
    assert percentile([3, 1, 2], 0.5) == 2


def test_ratios_are_to_the_limits() -> None:
    runs = [a_run("a", end=10), a_run("b", end=30)]
    found = measure(runs, 1)
    assert found.bounds == bounds(runs, 1) and found.bounds.average_jct_seconds == 15
    assert (found.average_jct_ratio, found.makespan_ratio) == (20 / 15, 1.5)
    assert measure(runs, 1, limits=bounds(runs, 1), unfinished=3).unfinished == 3


def test_nothing_that_ended_is_nothing_to_measure() -> None:
    with pytest.raises(BadSpec, match="no job ended"):
        measure([], 1)
