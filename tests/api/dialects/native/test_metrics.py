"""What a job took."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from stoker.api.dialects.native.metrics import cost_of, spent_by
from stoker.app import Stoker
from stoker.core.job import Attempt
from stoker.core.spec import Group, Machine
from stoker.hardware.prices import Price, quote
from tests.api.bodies import a_run
from tests.builders import a_job, a_spec

PROJECT = "/stoker/v1/projects/p"


def attempt(placed: float, started: float | None, ended: float | None) -> Attempt:
    """A try with these times, in seconds after the submission."""
    return Attempt(
        id="p/j.1",
        job="p/j",
        number=1,
        engine="fake",
        placements=(),
        placed_at=placed,
        replicas=(),
        started_at=started,
        ended_at=ended,
    )


def test_two_attempts_and_the_waiting_between_them() -> None:
    job = replace(a_job(at=0.0), ended_at=100.0)
    spent = spent_by(job, [attempt(10.0, 15.0, 30.0), attempt(50.0, 52.0, 99.0)], now=1000.0)
    assert (spent.queued, spent.preparing, spent.running, spent.held) == (31.0, 7.0, 62.0, 69.0)


def test_an_attempt_that_never_ran_was_only_prepared() -> None:
    spent = spent_by(replace(a_job(at=0.0), ended_at=20.0), [attempt(5.0, None, 20.0)], now=99.0)
    assert (spent.queued, spent.preparing, spent.running) == (5.0, 15.0, 0.0)


def test_what_goes_on_counts_until_now() -> None:
    assert spent_by(a_job(at=0.0), [], now=7.0).queued == 7.0
    assert spent_by(a_job(at=0.0), [attempt(1.0, 2.0, None)], now=7.0).running == 5.0


@given(st.lists(st.floats(0, 1e6), min_size=5, max_size=5).map(sorted), st.booleans())
def test_the_three_times_add_up(times: list[float], ran: bool) -> None:
    placed, started, ended, over, _ = times
    job = replace(a_job(at=0.0), ended_at=over)
    spent = spent_by(job, [attempt(placed, started if ran else None, ended)], now=2e6)
    assert abs(spent.queued + spent.held - over) < 1e-6


def priced(**machine: Any) -> Any:
    """A spec of two such machines."""
    group = Group(role="chief", count=2, machine=Machine(**machine))
    return replace(a_spec(), groups=(group,), region="us-central1")


def test_the_cost_of_known_machines() -> None:
    spec = priced(type="n1-standard-4", accelerator="NVIDIA_TESLA_T4", accelerator_milli=2000)
    price = quote("n1-standard-4", "NVIDIA_TESLA_T4", 2, "us-central1")
    assert isinstance(price, Price)
    assert cost_of(spec, 3.0) == (round(2 * price.usd_per_hour * 3.0, 6), price.as_of, list(price.notes))


def test_what_has_no_price_has_no_cost_but_a_reason() -> None:
    for spec, phrase in (
        (priced(vcpus=4.0), "names no machine type"),
        (priced(type="no-such-machine"), "no-such-machine"),
        (replace(priced(type="n1-standard-4"), pool="rehearsal/p/j"), "virtual nodes"),
    ):
        cost, as_of, notes = cost_of(spec, 3.0)
        assert cost is None and as_of is None and phrase in notes[0]


def test_a_job_that_waits_has_taken_nothing_but_time(http: TestClient, stoker: Stoker) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run(gpus=4))
    found = http.get(f"{PROJECT}/jobs/r/metrics").json()
    assert found["state"] == "QUEUED" and found["queued_seconds"] >= 0
    assert {
        found[key] for key in ("preparing_seconds", "running_seconds", "attempts", "restarts", "machine_hours")
    } == {0}
    assert found["cost_usd"] is None and found["cost_notes"]
