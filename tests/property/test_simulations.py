"""Whatever trace is replayed, whatever fails: everything ends, nothing is held twice, and no bound is beaten."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.site import Backfill, Preemption, Site, Victims
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.failures import Failures
from stoker.simulate.run import Model
from stoker.simulate.study import Outcome, study
from stoker.simulate.trace import Trace, TraceJob

A_JOB = st.builds(
    TraceJob,
    name=st.just(""),
    submitted_at=st.integers(0, 500).map(float),
    run_seconds=st.integers(1, 400).map(float),
    gpus_milli=st.sampled_from([0, 250, 500, 1000, 2000, 4000, 6000, 8000]),
    priority=st.integers(0, 2),
    queue=st.sampled_from(["", "x"]),
)
A_TRACE = st.lists(A_JOB, min_size=1, max_size=12)
A_SITE = st.builds(
    Site,
    policy=st.sampled_from(["fifo", "priority", "las", "srsf"]),
    placer=st.sampled_from(["best-fit", "pack", "spread"]),
    backfill=st.sampled_from(Backfill),
    preemption=st.builds(Preemption, quantum_seconds=st.sampled_from([0.0, 60.0]), victims=st.sampled_from(Victims)),
)
A_MODEL = st.builds(
    Model,
    resumable_share=st.sampled_from([0.0, 0.5, 1.0]),
    failures=st.none()
    | st.builds(Failures, mean_seconds=st.just(5000.0), repair_seconds=st.sampled_from([10.0, 900.0])),
    knows_run_times=st.booleans(),
    seed=st.integers(0, 3),
)


def replayed(jobs: list[TraceJob], site: Site, model: Model) -> Outcome:
    """Two nodes of four GPUs: each job fits."""
    named = (replace(job, name=f"j{n:02d}") for n, job in enumerate(sorted(jobs, key=lambda job: job.submitted_at)))
    (found,) = study(Trace(name="drawn", jobs=tuple(named)), nodes_of_text("2x4xT4"), [site], model)
    return found


@given(jobs=A_TRACE, site=A_SITE, model=A_MODEL)
def test_everything_ends_and_no_bound_is_beaten(jobs: list[TraceJob], site: Site, model: Model) -> None:
    found = replayed(jobs, site, model)
    assert not found.unfinished and not found.refused and len(found.runs) == len(jobs)
    for run in found.runs:
        assert (
            run.first_started_at >= run.submitted_at and run.ended_at >= run.first_started_at + run.run_seconds - 1e-6
        )
    assert found.metrics.average_jct_ratio >= 1 - 1e-9 and found.metrics.makespan_ratio >= 1 - 1e-9
    time = found.timeline
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in (*time.allocated_share, *time.unusable_share))
    assert all(waiting >= -1e-9 for waiting in time.waiting_jobs) and -1e-9 <= time.mean_fragmentation <= 1 + 1e-9
    assert found.metrics.utilisation <= time.mean_allocated_share + 1e-9


@given(jobs=A_TRACE, site=A_SITE, model=A_MODEL)
def test_the_same_again_is_the_same(jobs: list[TraceJob], site: Site, model: Model) -> None:
    assert replayed(jobs, site, model) == replayed(jobs, site, model)


@given(jobs=A_TRACE)
def test_who_knows_nothing_and_stops_nobody_holds_what_is_used(jobs: list[TraceJob]) -> None:
    found = replayed(jobs, Site(policy="fifo"), Model())
    assert found.metrics.utilisation == pytest.approx(found.timeline.mean_allocated_share)
