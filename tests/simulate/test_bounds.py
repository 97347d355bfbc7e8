"""Limits: by hand, against the reference, and never above what a schedule reaches."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import BadSpec
from stoker.simulate.bounds import bounds
from stoker.simulate.trace import TraceJob, read_trace
from tests.simulate.real_traces import FOLDER, PHILLY, REAL


def jobs(*rows: tuple[float, float, float]) -> list[TraceJob]:
    """Jobs of (submitted at, run time, GPUs)."""
    return [
        TraceJob(name=f"j{n}", submitted_at=at, run_seconds=run, gpus_milli=round(1000 * gpus))
        for n, (at, run, gpus) in enumerate(rows)
    ]


def list_schedule(work: Sequence[TraceJob], gpus: int, *, shortest_first: bool = False) -> tuple[float, float]:
    """Makespan and average JCT where whoever fits starts, in the order of submission or of run time. No preemption."""
    order = sorted(work, key=lambda job: (job.submitted_at, job.name))
    free, now, running, waiting, ends = 1000 * gpus, 0.0, [], [], {}
    while order or waiting:
        if not waiting and order:
            now = max(now, order[0].submitted_at)
        while order and order[0].submitted_at <= now:
            waiting.append(order.pop(0))
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        for job in sorted(waiting, key=lambda job: job.run_seconds) if shortest_first else list(waiting):
            if job.gpus_milli <= free:
                free -= job.gpus_milli
                ends[job.name] = now + job.run_seconds
                heapq.heappush(running, (ends[job.name], job.gpus_milli))
                waiting.remove(job)
        moments = [running[0][0]] if running else []
        now = max(now, min([*moments, *([order[0].submitted_at] if order else [])], default=now))
    return max(ends.values()), sum(ends[job.name] - job.submitted_at for job in work) / len(work)


def test_one_job_alone() -> None:
    found = bounds(jobs((5, 10, 2)), 8)
    assert (found.makespan_seconds, found.average_jct_seconds) == (15, 10)
    assert found.mean_run_seconds == found.order_statistic_seconds == 10


def test_jobs_that_take_the_whole_cluster_come_one_after_the_other() -> None:
    found = bounds(jobs((0, 10, 4), (0, 20, 4), (0, 30, 4)), 4)
    assert (found.makespan_seconds, found.average_jct_seconds) == (60, (10 + 30 + 60) / 3)
    assert found.mean_run_seconds == 20
    assert found.order_statistic_seconds == found.mean_busy_seconds == pytest.approx(100 / 3)


def test_a_short_job_goes_first_whenever_it_comes() -> None:
    """The long one is served from 0 to 5 and 6 to 26: its work lies at 15.6 in the mean, and it ends at 26."""
    found = bounds(jobs((0, 25, 1), (5, 1, 1)), 1)
    assert found.order_statistic_seconds == (26 + 6 - 5) / 2
    assert found.mean_busy_seconds == pytest.approx(((2.5 * 5 + 16 * 20) / 25 + 12.5 + 6 - 5) / 2)


def test_gangs_of_more_than_half_never_run_together() -> None:
    assert bounds(jobs((0, 10, 3), (0, 10, 3), (0, 10, 3)), 4).makespan_seconds == 30


def test_work_that_comes_late_counts_from_then() -> None:
    assert bounds(jobs((0, 1, 1), (100, 10, 2), (100, 10, 2), (100, 10, 2)), 2).makespan_seconds == 130


def test_shares_of_a_gpu_and_jobs_without_one() -> None:
    assert bounds(jobs((0, 10, 0.5), (0, 10, 0.5)), 1).average_jct_seconds == 10
    found = bounds(jobs((0, 10, 0), (0, 20, 0), (0, 10, 1)), 1)
    assert (found.makespan_seconds, found.average_jct_seconds) == (20, pytest.approx(40 / 3))


def test_a_gang_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(BadSpec, match="gpus: 4 GPUs: 1 jobs want more, the first is j1"):
        bounds(jobs((0, 1, 1), (0, 1, 5)), 4)
    with pytest.raises(BadSpec, match="there are no jobs"):
        bounds([], 4)


JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.sampled_from([0, 0.25, 0.5, 1, 1, 2, 3, 4, 8])),
    min_size=1,
    max_size=25,
)


@settings(max_examples=300, deadline=None, database=None)
@given(rows=JOBS, gpus=st.integers(8, 16), shortest_first=st.booleans())
def test_no_schedule_is_below(rows: list[tuple[float, float, float]], gpus: int, shortest_first: bool) -> None:
    work = jobs(*rows)
    limit = bounds(work, gpus)
    makespan, average_jct = list_schedule(work, gpus, shortest_first=shortest_first)
    assert limit.makespan_seconds <= makespan + 1e-6
    assert max(limit.mean_run_seconds, limit.order_statistic_seconds, limit.mean_busy_seconds) <= average_jct + 1e-6


@settings(max_examples=50, deadline=None, database=None)
@given(rows=JOBS, by=st.integers(1, 1000))
def test_moving_everything_moves_the_makespan_and_not_the_jct(rows: list[tuple[float, float, float]], by: int) -> None:
    here, there = bounds(jobs(*rows), 8), bounds(jobs(*((at + by, *rest) for at, *rest in rows)), 8)
    assert there.makespan_seconds == pytest.approx(here.makespan_seconds + by)
    assert there.average_jct_seconds == pytest.approx(here.average_jct_seconds)


@REAL
@pytest.mark.parametrize(
    ("name", "average_jct", "makespan"),
    [("trace1", 789_240, 21_730_969), ("trace3", 126_934, None), ("trace3_pr", 770_878, None)],
)
def test_muris_traces_as_in_the_reference(name: str, average_jct: int, makespan: int | None) -> None:
    found = bounds(read_trace(FOLDER / "muri" / f"{name}.csv.gz").jobs, 64)
    assert round(found.average_jct_seconds) == average_jct
    assert makespan is None or round(found.makespan_seconds) == makespan


@REAL
def test_philly_as_in_the_reference() -> None:
    window = read_trace(PHILLY).days(date(2017, 10, 2), date(2017, 11, 5))
    assert [round(bounds(window.jobs, gpus).average_jct_seconds) for gpus in (640, 512)] == [11_786, 11_786]
