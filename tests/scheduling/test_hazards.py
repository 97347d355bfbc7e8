"""How likely a job is to end soon: learned from what has ended, what still runs, and its neighbours."""

from __future__ import annotations

import pytest

from stoker.core.job import Job
from stoker.scheduling.hazards import EDGES, Hazards
from tests.builders import a_job, an_attempt


def job(name: str, at: float = 0.0, owner: str = "u", gpus: int = 1) -> Job:
    return a_job(name, at=at, owner=owner, gpus=gpus)


def after(runs: list[float], owner: str = "u") -> Hazards:
    """What is known when these have ended, far apart in time so that nobody is a neighbour that counts."""
    hazards = Hazards()
    for n, run in enumerate(runs):
        one = job(f"{owner}{n}", at=1e7 * n, owner=owner)
        hazards.follow(one, None)
        hazards.end(one, run, 1e7 * n + run)
    return hazards


def test_before_anything_is_known_who_has_run_longer_is_expected_to_need_more() -> None:
    hazards = Hazards()
    needs = [hazards.index(job("j"), ran, 0.0) for ran in (0.0, 100.0, 1000.0, 10_000.0)]
    assert needs == sorted(needs) and needs[0] < 500 < needs[-1]


def test_where_all_jobs_are_short_a_new_one_is_expected_to_be() -> None:
    assert after([50.0] * 200).index(job("new", at=1e10), 0.0, 1e10) < 70
    assert after([50_000.0] * 200).index(job("new", at=1e10), 0.0, 1e10) > 1_500


def test_users_are_told_apart() -> None:
    hazards = after([50.0] * 200, "short")
    for n in range(200):
        one = job(f"l{n}", at=1e7 * n, owner="long")
        hazards.follow(one, None)
        hazards.end(one, 50_000.0, 1e9)
    short, long = (hazards.index(job("new", at=1e10, owner=owner), 0.0, 1e10) for owner in ("short", "long"))
    assert 10 * short < long


def test_neighbours_say_more_than_everybody() -> None:
    hazards = after([50_000.0] * 200)
    sweep = [job(f"s{n}", at=1e10 + n) for n in range(4)]
    for one in sweep:
        hazards.follow(one, None)
    before = hazards.index(sweep[3], 0.0, 1e10)
    for one in sweep[:3]:
        hazards.end(one, 40.0, 1e10 + 50)
    assert hazards.index(sweep[3], 0.0, 1e10 + 50) < before / 10


def test_a_neighbour_that_still_runs_counts_for_what_it_has_outlived() -> None:
    hazards = after([50.0] * 200)
    first, second = job("a", at=1e10), job("b", at=1e10 + 1)
    for one in (first, second):
        hazards.follow(one, None)
    before = hazards.index(second, 0.0, 1e10)
    hazards.follow(first, an_attempt(first, placed_at=1e10))
    assert hazards.index(second, 0.0, 1e10 + 100_000) > 2 * before


@pytest.mark.parametrize("ran, left", [(0.0, 60.0), (60.0, 60.0), (100.0, 20.0), (EDGES[-1], None)])
def test_when_a_span_ends(ran: float, left: float | None) -> None:
    assert Hazards.span_ends_in(ran) == left
