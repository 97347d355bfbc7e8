"""When a job will start that is far back in a long queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.scheduling.free import Free
from stoker.simulate import estimate as estimate_module
from stoker.simulate.counted import counted
from stoker.simulate.estimate import estimate
from stoker.simulate.forecast import Budget, forecast
from tests.builders import a_job

from .futures import AMPLE, AT, a_now, a_past, full

TEN_MINUTES = a_past(*[600.0] * 10)
QUEUE = [a_job(f"wait_{n}", at=AT - 100 + n, gpus=4) for n in range(60)]


def test_counting_hands_out_devices_in_order() -> None:
    now = a_now("n0:4 n1:4", running=full("n0 n1", 300.0, 200.0), waiting=QUEUE[:5], history=TEN_MINUTES)
    found = counted(now, QUEUE[4], QUEUE[:4], Free.of(now.world), 3)
    assert [outcome.started_at for outcome in found] == [AT + 1500.0] * 3 and found[0].let_in_by == "p/wait_2"


def test_who_wants_another_kind_is_not_before_it() -> None:
    others = [a_job(f"other_{n}", at=AT - 200) for n in range(50)]
    now = a_now("n0:4", running=full("n0", 300.0), waiting=[*others, QUEUE[0]], history=TEN_MINUTES)
    assert counted(now, QUEUE[0], others, Free.of(now.world), 1)[0].started_at == AT + 300.0
    on_vcpus = counted(now, others[0], (), Free.of(now.world), 1)
    assert on_vcpus[0].started_at == AT


def test_what_never_fits_is_not_started() -> None:
    job = a_job("gang", gpus=4, workers=3)
    now = a_now("n0:4", waiting=[job])
    assert counted(now, job, (), Free.of(now.world), 1)[0].started_at is None


def test_a_short_queue_is_played() -> None:
    now = a_now("n0:4", running=full("n0", 300.0), waiting=QUEUE[:5], history=TEN_MINUTES)
    assert estimate(now, QUEUE[4], AMPLE) == forecast(now, QUEUE[4].id, AMPLE)


@pytest.mark.parametrize("work", [20.0, 300.0, 1000.0])
def test_a_long_one_is_counted_too(work: float) -> None:
    now = a_now("n0:4", running=full("n0", 300.0), waiting=QUEUE, history=TEN_MINUTES)
    found, truth = estimate(now, QUEUE[59], Budget(work=work, seconds=1e9)), AT + 300.0 + 59 * 600.0
    assert found.at.low is not None and found.at.middle is not None and found.at.high is not None
    assert found.at.low <= truth <= found.at.high and found.draws == 40 and "counted" in found.basis
    assert ("rough" in found.basis) == (work == 20.0) and found.at.middle == truth


def test_too_long_a_queue_is_not_played_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_module, "MOST_PLAYED", 10)
    now = a_now("n0:4", running=full("n0", 300.0), waiting=QUEUE, history=TEN_MINUTES)
    found = estimate(now, QUEUE[59], AMPLE)
    assert "rough" in found.basis and found.at.middle == AT + 300.0 + 59 * 600.0
    assert estimate(replace(now, hold=True), QUEUE[59], Budget(draws=2)).at.middle is None


def test_what_is_free_is_had_at_once_whatever_the_budget() -> None:
    now = a_now("n0:4", waiting=QUEUE[:1])
    assert estimate(now, QUEUE[0], Budget(work=1)).at.middle == AT
