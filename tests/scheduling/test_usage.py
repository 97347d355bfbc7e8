"""Who holds how much, and what that leaves of shares and quotas."""

from __future__ import annotations

import pytest

from stoker.core.site import Queue, Quota, Site
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec, Machine, Program
from stoker.scheduling.usage import Usage, amounts_of
from tests.builders import a_job, a_node, a_spec, an_attempt

LAB = Site(
    queues={
        "red": Queue(name="red", cohort="lab", quotas={"T4": Quota(nominal_milli=4000, borrowing_milli=2000)}),
        "blue": Queue(name="blue", cohort="lab", quotas={"T4": Quota(nominal_milli=4000, lending_milli=1000)}),
        "own": Queue(name="own", weight=2.0, quotas={"T4": Quota(nominal_milli=2000)}),
        "default": Queue(name="default"),
    }
)


def books(site: Site = LAB, gpus: int = 16) -> Usage:
    return Usage(site, [a_node("n0", gpus)])


def held(found: Usage, queue: str, milli: int, name: str = "a", now: float = 0.0) -> Usage:
    found.hold(name, queue, queue, {"T4": milli}, now)
    return found


@pytest.mark.parametrize(
    "queue, has, asks, may",
    [
        ("own", 0, 2000, True),
        ("own", 1000, 1500, False),
        ("red", 0, 4000, True),
        ("red", 4000, 1000, True),  # blue lends one
        ("red", 4000, 2000, False),  # and no more
        ("blue", 4000, 2000, True),  # red lends all
        ("default", 9000, 9000, True),  # nobody counts what it holds
    ],
)
def test_what_a_queue_may_hold_more(queue: str, has: int, asks: int, may: bool) -> None:
    found = held(books(), queue, has).exceeded(LAB.queues[queue], {"T4": asks})
    assert (found is None) == may


def test_what_is_borrowed_is_not_there_for_the_third() -> None:
    found = held(held(books(), "red", 4000), "blue", 4000, "b")
    found.hold("c", "red", "red", {"T4": 1000}, 0.0)  # more than there was: it had been lent before
    assert found.exceeded(LAB.queues["blue"], {"T4": 1000}) == "T4"
    with found.without(["c", "a"], 0.0):
        assert found.exceeded(LAB.queues["blue"], {"T4": 1000}) is None
    assert found.held("red", "T4") == 5000


def test_what_could_never_be_held() -> None:
    found = held(books(), "red", 4000)
    assert found.ever_exceeds(LAB.queues["red"], {"T4": 5000}) is None
    assert found.ever_exceeds(LAB.queues["red"], {"T4": 6000}) == "T4", "blue lends one of the two that it may borrow"
    assert found.ever_exceeds(LAB.queues["own"], {"T4": 3000}) == "T4"


def test_the_dominant_share_by_weight() -> None:
    found = books()
    found.hold("a", "own", "own", {"T4": 4000, "CPU": 32000}, 0.0)
    assert found.share("own", "own", 0.0) == pytest.approx(32 / 64 / 2.0), "of its 64 vCPUs it holds the greater part"
    assert found.share("red", "red", 0.0) == 0.0


def test_past_usage_fades_by_its_half_life() -> None:
    found = books(Site(half_life_seconds=100.0))
    held(found, "default", 16000)
    assert found.share("default", "default", 0.0) == pytest.approx(0.5), "all is held, nothing was"
    assert found.share("default", "default", 100.0) == pytest.approx(0.75)
    found.release("a", 100.0)
    assert found.share("default", "default", 100.0) == pytest.approx(0.25)
    assert found.share("default", "default", 200.0) == pytest.approx(0.125)


def test_usage_told_after_a_restart_is_what_it_would_have_been() -> None:
    site = Site(half_life_seconds=100.0)
    lived = held(books(site), "default", 8000, now=0.0)
    lived.release("a", 150.0)
    told = books(site)
    told.remember("default", {"T4": 8000}, started=0.0, ended=150.0, now=300.0)
    assert told.share("default", "default", 300.0) == pytest.approx(lived.share("default", "default", 300.0))


def test_what_was_lost_by_the_site_s_fault_counts_no_more() -> None:
    site = Site(half_life_seconds=100.0)
    whole, cut = held(books(site), "default", 8000, now=0.0), held(books(site), "default", 8000, now=0.0)
    whole.release("a", 150.0)
    cut.release("a", 100.0)
    whole.credit("default", {"T4": 8000}, seconds=50.0, until=150.0, now=200.0)
    assert whole.share("default", "default", 300.0) == pytest.approx(cut.share("default", "default", 300.0))
    whole.credit("default", {"T4": 8000}, seconds=1e9, until=150.0, now=300.0)
    assert whole.share("default", "default", 300.0) == 0.0, "never less than nothing"
    whole.credit("stranger", {"T4": 8000}, seconds=1.0, until=150.0, now=300.0)
    assert whole.share("default", "stranger", 300.0) == 0.0


def test_what_a_gang_holds_by_resource() -> None:
    spec = a_spec(gpus=2, workers=2, ps=1)
    here = {"CPU": 4000, "GPU": 6000, "T4": 6000}
    assert amounts_of(spec) == here | {f"{name}@us-central1": amount for name, amount in here.items()}


def test_of_what_type_any_accelerator_is_its_place_says() -> None:
    machine = Machine(accelerator=ANY_ACCELERATOR, accelerator_milli=1000)
    spec = JobSpec(program=Program(), groups=(Group(role="chief", count=1, machine=machine),))
    assert "T4" not in amounts_of(spec)
    attempt = an_attempt(a_job(gpus=1), placed_at=0.0)
    assert amounts_of(spec, attempt.placements, {"n0": a_node("n0", 4)})["T4"] == 1000
