"""A clock that is set back in the middle of jobs: no span is negative, and nothing waits for what has passed."""

from __future__ import annotations

import itertools
from pathlib import Path

from stoker.core.states import JobState, ReplicaState
from tests.builders import a_house

HOUR = 3600.0


def test_an_hour_back_in_the_middle_of_a_job(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:1")
    for name in ("first", "waits"):
        house.submit(name, gpus=1)
    house.tick(2, seconds=1.0)
    house.engine.set("p/first.1", ReplicaState.UP)
    house.tick(seconds=1.0)
    house.tick(seconds=60.0)
    house.clock.advance(-HOUR)
    house.tick(2, seconds=30.0)
    house.engine.set("p/first.1", ReplicaState.SUCCEEDED)
    house.tick(3, seconds=1.0)
    house.engine.set("p/waits.1", ReplicaState.UP)
    house.tick(seconds=1.0)
    first, waits = house.job("first"), house.job("waits")
    assert first.state is JobState.SUCCEEDED and first.started_at and first.ended_at
    assert 90.0 <= first.ended_at - first.started_at < 130.0, "what it ran, but for the jump itself"
    assert 90.0 <= first.held_seconds < 130.0
    assert waits.started_at is not None and 0.0 <= waits.started_at - waits.submitted_at < 200.0
    moments = [line.at for line in house.store.story()]
    assert all(a <= b for a, b in itertools.pairwise(moments))


def test_a_server_that_starts_an_hour_earlier_goes_on_from_the_last_moment(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:1")
    house.submit("j", gpus=1)
    house.tick(3, seconds=10.0)
    house.clock.advance(-HOUR)
    heir = a_house(tmp_path, store=house.store, clock=house.clock, engine=house.engine)
    heir.tick(seconds=5.0)
    heir.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    heir.tick(2, seconds=1.0)
    job = heir.job("j")
    assert job.state is JobState.SUCCEEDED and job.held_seconds >= 0.0
    assert job.started_at is not None and job.ended_at is not None and job.ended_at >= job.started_at
