"""The soonest ends, found by bounds and for many at once, are those that one finds by asking each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.copies import replace
from stoker.core.job import Attempt, Job
from stoker.core.spec import Limits
from stoker.scheduling.expected_ends import LIKELY, ExpectedEnds
from stoker.scheduling.history import History
from stoker.simulate.known import KnownRunTimes
from tests.builders import a_job, an_attempt

OWNERS = ("ada", "bob", "eve")
SECONDS = st.sampled_from([1.0, 10.0, 60.0, 61.0, 500.0, 3600.0, 86400.0])


def expected_end(job: Job, attempt: Attempt, history: History, now: float) -> float:
    """When one will likely have ended, asked of it alone."""
    started = attempt.placed_at if attempt.started_at is None else attempt.started_at
    limit = started + job.spec.limits.running_seconds
    remaining = history.remaining_seconds(job, job.held_seconds + now - attempt.placed_at, LIKELY)
    return limit if remaining is None else min(limit, now + remaining)


@pytest.mark.parametrize("make", [History, lambda: KnownRunTimes(lambda job: float(len(job) * 7))])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["comes", "comes", "starts", "ends", "goes", "ask"]),
            st.integers(0, 30),
            SECONDS,
            st.sampled_from(OWNERS),
        ),
        max_size=60,
    )
)
def test_they_are_those_of_asking_each(make: Callable[[], History], steps: list[tuple[str, int, float, str]]) -> None:
    history, now = make(), 1.7e9
    ends, live = ExpectedEnds(history), dict[str, tuple[Job, Attempt]]()
    for what, number, seconds, owner in steps:
        now += seconds / 7
        name = f"{owner}{number}"
        job, attempt = live.get(name, (None, None))
        if what == "comes" and job is None:
            limits = Limits(running_seconds=seconds * 1000)
            job = replace(a_job(name, owner=owner, gpus=1 + number % 2, limits=limits), held_seconds=number * 3.0)
            live[name] = (job, an_attempt(job, placed_at=now))
            ends.follow(*live[name])
        elif what == "starts" and job is not None and attempt is not None:
            live[name] = (job, replace(attempt, started_at=now))
            ends.follow(*live[name])
        elif what in ("ends", "goes") and job is not None and attempt is not None:
            ends.discard(attempt.id)
            if what == "ends":
                history.add(job, job.held_seconds + now - attempt.placed_at)
            del live[name]
        wanted = sorted((expected_end(*pair, history, now), pair[1].id) for pair in live.values())
        soonest = ends.soonest("", now)
        assert len(soonest) == len(wanted)
        assert soonest.between(0, number) == wanted[:number] and soonest.between(1, 99) == wanted[1:]


def test_what_is_learned_brings_ends_nearer() -> None:
    history = History()
    ends = ExpectedEnds(history)
    for owner, seconds in (("ada", 1000.0), ("bob", 500.0)):
        for n in range(3):
            history.add(a_job(f"{owner}{n}", owner=owner), seconds)
        job = a_job(f"{owner}9", owner=owner)
        ends.follow(job, an_attempt(job, placed_at=0.0))
    assert ends.soonest("", 10.0).between(0, 2) == [(500.0, "p/bob9.1"), (1000.0, "p/ada9.1")]
    for n in range(20):
        history.add(a_job(f"ada{n}", owner="ada"), 100.0)
    assert ends.soonest("", 10.0).between(0, 2) == [(100.0, "p/ada9.1"), (500.0, "p/bob9.1")]


def test_pools_are_apart() -> None:
    ends = ExpectedEnds(History())
    for name, pool in (("a", ""), ("b", "mine")):
        job = a_job(name, pool=pool)
        ends.follow(job, an_attempt(job, placed_at=0.0))
    assert [attempt for _, attempt in ends.soonest("mine", 1.0).between(0, 9)] == ["p/b.1"]
