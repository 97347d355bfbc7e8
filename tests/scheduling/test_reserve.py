"""When and where the head of the queue could start."""

from __future__ import annotations

from stoker.core.spec import Limits
from stoker.core.world import World
from stoker.scheduling.expected_ends import ExpectedEnds
from stoker.scheduling.free import Free
from stoker.scheduling.history import History
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.reserve import Reservation, reserve
from tests.builders import a_job, a_node, an_attempt


def world(**limits: float) -> World:
    """One node of two GPUs for each job, all of which run since 0 and end by their limits."""
    found = World()
    for n, (name, seconds) in enumerate(limits.items()):
        job = a_job(name, gpus=2, limits=Limits(running_seconds=seconds))
        attempt = an_attempt(job, placed_at=0.0, node=f"n{n}")
        found.nodes[f"n{n}"] = a_node(f"n{n}", 2)
        found.jobs[job.id], found.attempts[attempt.id] = job, attempt
        found.attempt_of[job.id] = attempt.id
    return found


def ask(found: World, gpus: int, workers: int = 0) -> Reservation | None:
    job, free = a_job("head", gpus=gpus, workers=workers), Free.of(found)
    before = free.milli.tolist()
    ends = ExpectedEnds(History())
    for attempt in found.attempts.values():
        ends.follow(found.jobs[attempt.job], attempt)
    reservation = reserve(job, found, free, BestFit(), ends, 10.0)
    assert free.milli.tolist() == before, "asking takes nothing"
    return reservation


def test_the_first_moment_at_which_the_whole_gang_fits() -> None:
    found = world(a=300.0, b=100.0, c=200.0, d=400.0)
    assert ask(found, 2) == Reservation("p/head", 100.0, frozenset({"n1"}))
    assert ask(found, 2, workers=1) == Reservation("p/head", 200.0, frozenset({"n1", "n2"}))
    assert ask(found, 2, workers=3) == Reservation("p/head", 400.0, frozenset({"n0", "n1", "n2", "n3"}))


def test_what_fits_now_starts_now_and_what_never_fits_never() -> None:
    found = world(a=300.0)
    found.nodes["idle"] = a_node("idle", 2)
    assert ask(found, 2) == Reservation("p/head", 10.0, frozenset({"idle"}))
    assert ask(found, 4) is None
