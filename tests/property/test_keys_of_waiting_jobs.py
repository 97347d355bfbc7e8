"""Where keys only grow by time, those that are worked out when they are needed decide what all worked out at once would."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.changes import Change
from stoker.core.copies import replace as copy
from stoker.core.site import Backfill, Preemption, Site, Victims
from stoker.scheduling.base import Shift
from stoker.scheduling.hazards import Hazards
from stoker.scheduling.policies.gittins import Gittins
from stoker.scheduling.rules import rules_of
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.engine import Costs
from stoker.simulate.run import Model, replay
from stoker.simulate.trace import Trace, TraceJob
from tests.builders import a_job, an_attempt

A_JOB = st.builds(
    TraceJob,
    name=st.just(""),
    submitted_at=st.sampled_from([0.0, 0.0, 0.0, 100.0, 1000.0]),
    run_seconds=st.integers(1, 4000).map(float),
    gpus_milli=st.sampled_from([1000, 2000, 4000]),
    user=st.sampled_from(["ada", "bob"]),
)


class AllAtOnce(Gittins):
    """The same policy, of which nothing is known of how keys change."""

    shifts = Shift.ANYHOW


def decisions(jobs: list[TraceJob], site: Site, policy: Gittins) -> list[Change]:
    """All that is decided of these jobs on two nodes of four GPUs."""
    rules, model = replace(rules_of(site), policy=policy), Model(costs=Costs(restart_seconds=5.0))
    trace = Trace(name="drawn", jobs=tuple(jobs))
    return list(replay(trace, nodes_of_text("2x4xT4"), site, model=model, rules=rules).decisions)


@settings(max_examples=40)
@given(
    jobs=st.lists(A_JOB, min_size=5, max_size=60),
    quantum=st.sampled_from([0.0, 60.0]),
    backfill=st.sampled_from(Backfill),
)
def test_keys_worked_out_when_needed_decide_the_same(jobs: list[TraceJob], quantum: float, backfill: Backfill) -> None:
    site = Site(
        policy="gittins", backfill=backfill, preemption=Preemption(victims=Victims.RESUMABLE, quantum_seconds=quantum)
    )
    named = [replace(job, name=f"j{n:02d}") for n, job in enumerate(sorted(jobs, key=lambda job: job.submitted_at))]
    assert decisions(named, site, Gittins()) == decisions(named, site, AllAtOnce())


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["comes", "runs", "waits", "ends"]), st.floats(1.0, 1e5)),
        max_size=30,
    )
)
def test_an_index_grows_by_time_and_changes_otherwise_only_as_told(steps: list[tuple[int, str, float]]) -> None:
    hazards, told, now = Hazards(), set[str](), 0.0
    hazards.before_change = told.update
    live = {}
    for number, what, seconds in steps:
        job = a_job(f"j{number}", at=float(number))
        before = {name: hazards.index(one, 0.0, now) for name, one in live.items()}
        told.clear()
        match what:
            case "ends":
                hazards.end(live.pop(job.id, job), seconds, now)
            case "runs":
                live[job.id] = job
                hazards.follow(job, an_attempt(job, placed_at=now))
            case _:
                live[job.id] = copy(job, held_seconds=seconds) if what == "waits" else job
                hazards.follow(live[job.id], None)
        for name in live.keys() & before.keys() - told:
            assert hazards.index(live[name], 0.0, now) == before[name], "nobody was told"
        at_once = {name: hazards.index(one, 0.0, now) for name, one in live.items()}
        now += seconds
        for name, index in at_once.items():
            assert hazards.index(live[name], 0.0, now) >= index * (1 - 1e-12)
