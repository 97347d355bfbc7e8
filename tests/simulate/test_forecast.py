"""When a waiting job will start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.changes import MoveAttempt, Open
from stoker.core.site import Backfill, Site
from stoker.core.spec import Limits
from stoker.core.states import AttemptState, Cause
from stoker.core.world import World, apply
from stoker.scheduling.history import History
from stoker.scheduling.rules import rules_of
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.forecast import Budget, forecast
from stoker.simulate.future import STOP_SECONDS, Now, adopted
from stoker.simulate.run import Model, replay
from stoker.simulate.run_times import Known
from stoker.simulate.trace import Trace, TraceJob
from tests.builders import a_job

from .futures import AMPLE, AT, a_now, a_past, full

TEN_MINUTES = a_past(*[600.0] * 10)


def starts(now: Now, name: str) -> tuple[float | None, float | None, float | None]:
    """The interval, from now."""
    at = forecast(now, f"p/{name}", AMPLE).at
    return tuple(None if moment is None else round(moment - AT, 3) for moment in (at.low, at.middle, at.high))  # type: ignore[return-value]


def test_what_is_free_is_had_at_once() -> None:
    now = a_now("n0:4", waiting=[a_job("j", gpus=4)])
    found = forecast(now, "p/j", AMPLE)
    assert (found.at.low, found.at.high, found.draws, found.basis) == (AT, AT, 1, "what it needs is free")
    assert [place.node for place in found.placements] == ["n0"] and found.waits_for == ""


def test_one_after_the_other_as_places_come_free() -> None:
    waiting = [a_job(f"wait_{n}", at=AT - 10 + n, gpus=4) for n in range(5)]
    now = a_now("n0:4 n1:4", running=full("n0 n1", 300.0, 200.0), waiting=waiting, history=TEN_MINUTES)
    ends = [300.0, 400.0, 900.0, 1000.0, 1500.0]
    assert [starts(now, f"wait_{n}") for n in range(5)] == [(end, end, end) for end in ends]
    found = forecast(now, "p/wait_1", AMPLE)
    assert found.waits_for == "p/run_1" and [place.node for place in found.placements] == ["n1"]
    assert found.basis == "played 40 times, going by how long jobs like those that run or are before it have run here"


def test_a_gang_waits_for_the_last_of_its_places() -> None:
    gang = a_job("gang", at=AT - 20, gpus=4, workers=1)
    small = a_job("small", at=AT - 10, gpus=4)
    now = a_now("n0:4 n1:4", running=full("n0 n1", 300.0, 200.0), waiting=[gang, small], history=TEN_MINUTES)
    assert starts(now, "gang") == (400.0, 400.0, 400.0)
    # Of gangs nothing is known but what any job runs; the small one would delay it, so it comes after it.
    assert starts(now, "small") == (1000.0, 1000.0, 1000.0)


def test_without_a_past_the_limit_is_the_most() -> None:
    job = a_job("run_0", at=AT - 100, gpus=4, limits=Limits(running_seconds=3600.0))
    now = a_now("n0:4", running={"n0": (job, 100.0)}, waiting=[a_job("j", gpus=4)])
    low, middle, high = starts(now, "j")
    assert low and middle and high and 0 < low < middle < high <= 3500.0
    assert "their limits are the most" in forecast(now, "p/j", AMPLE).basis


def test_what_never_starts_says_so() -> None:
    held = a_now("n0:4", waiting=[a_job("j", gpus=4)], hold=True)
    found = forecast(held, "p/j", Budget(draws=3))
    assert (found.at.low, found.at.high, found.not_started, found.draws) == (None, None, 3, 3)
    assert "paused" in found.basis


def test_who_is_given_up_before_is_not_started() -> None:
    patient = a_job("j", gpus=4, limits=Limits(wait_seconds=60.0))
    now = a_now("n0:4", running=full("n0", 300.0), waiting=[patient], history=TEN_MINUTES)
    assert starts(now, "j") == (None, None, None)


def test_a_preemptible_one_gives_way() -> None:
    running = {"n0": (a_job("run_0", at=AT - 700, gpus=4, preemptible=True), 700.0)}
    waiting = [a_job("j", gpus=4, priority=500)]
    now = a_now("n0:4", running=running, waiting=waiting, history=a_past(*[6000.0] * 10))
    assert starts(now, "j") == (STOP_SECONDS,) * 3


def test_little_work_is_said() -> None:
    waiting = [a_job(f"wait_{n}", at=AT - 100 + n, gpus=4) for n in range(60)]
    now = a_now("n0:4", running=full("n0", 300.0), waiting=waiting, history=TEN_MINUTES)
    cut = forecast(now, "p/wait_59", Budget(work=20))
    assert (cut.draws, cut.not_started, cut.at.middle) == (1, 1, None) and AT < cut.played_until < AT + 60 * 600
    few = forecast(now, "p/wait_59", Budget(work=1000))
    assert 1 <= few.draws < 40 and few.at.middle == AT + 300 + 59 * 600


def test_no_time_is_said() -> None:
    ticks = iter(range(1000))
    now = a_now("n0:4", running=full("n0", 300.0), waiting=[a_job("j", gpus=4)], history=TEN_MINUTES)
    assert forecast(now, "p/j", Budget(seconds=10, clock=lambda: float(next(ticks)))).draws < 11


@pytest.mark.campaign
@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5000), st.sampled_from([1, 2, 4])), min_size=1, max_size=12), st.randoms())
def test_the_same_question_has_the_same_answer(jobs: list[tuple[int, int]], random: object) -> None:
    history = a_past(60.0, 200.0, 600.0, 900.0, 5000.0)
    waiting = [a_job(f"w_{n}", at=AT - ago, gpus=gpus) for n, (ago, gpus) in enumerate(jobs)]
    now = a_now("n0:4 n1:4", running=full("n0 n1", 30.0, 20.0), waiting=waiting, history=history)
    last = f"p/w_{len(jobs) - 1}"
    assert forecast(now, last, AMPLE) == forecast(now, last, AMPLE)


@settings(max_examples=20)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 400), st.sampled_from([1, 2, 4, 8])), min_size=4, max_size=25),
    backfill=st.sampled_from(list(Backfill)),
    policy=st.sampled_from(["fifo", "priority"]),
)
def test_where_run_times_are_known_it_says_what_comes(
    gaps: list[tuple[int, int]], backfill: Backfill, policy: str
) -> None:
    """Against the control loop itself: the forecast at the last submission is when the last one then starts."""
    at, jobs = 0.0, []
    for n, (gap, gpus) in enumerate(gaps):
        at += gap
        jobs.append(
            TraceJob(name=f"j_{n:02d}", submitted_at=at, run_seconds=600.0, gpus_milli=1000 * gpus, accelerators=())
        )
    site, nodes = Site(policy=policy, backfill=backfill), nodes_of_text("3x4xT4")
    played = replay(Trace(name="t", jobs=tuple(jobs)), nodes, site, model=Model(knows_run_times=True))
    history = History()
    for gpus in (1, 2, 4, 8):
        for n in range(3):
            history.add(a_job(f"past_{n}", gpus=gpus, owner="trace"), 600.0)
    world, last = World(), f"trace/{jobs[-1].name}"
    story = iter(played.story)
    for line in story:
        apply(world, line.change)
        if last in world.jobs:
            break
    known = Known.of(history, world.jobs.values())
    found = forecast(Now(world=adopted(world, at), rules=rules_of(site), known=known, at=at), last, AMPLE)
    truth = next(
        line.change.attempt.placed_at
        for line in story
        if isinstance(line.change, Open) and line.change.attempt.job == last
    )
    assert found.at.low is not None and found.at.high is not None
    assert found.at.low - 1 <= truth <= found.at.high + 1


def test_stopping_attempts_are_gone_soon() -> None:
    waiting = [a_job("j", gpus=4, priority=500)]
    now = a_now("n0:4", running=full("n0", 10.0), waiting=waiting, history=TEN_MINUTES)
    (attempt,) = now.world.attempts
    move = MoveAttempt(
        attempt=attempt, before=AttemptState.RUNNING, after=AttemptState.STOPPING, at=AT, cause=Cause.PREEMPTED
    )
    apply(now.world, move)
    assert starts(now, "j") == (STOP_SECONDS,) * 3
