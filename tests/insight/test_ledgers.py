"""Ledgers are worked out while a job lives, written down once when it has ended, and asked for by many jobs together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.core.changes import Credit
from stoker.core.states import Cause, ReplicaState
from stoker.insight.goodput import Phase, total
from stoker.insight.ledgers import LIVE_SECONDS, SETTLE_SECONDS, Ledgers
from stoker.insight.live_world import LiveWorld
from tests.builders import House


@pytest.fixture
def ledgers(house: House, tmp_path: Path) -> Ledgers:
    return Ledgers(tmp_path / "goodput.db", house.store, house.logs, LiveWorld(house.store), house.clock)


def trains(house: House, name: str, *, steps: int = 10) -> None:
    """A job runs, and tells of steps of half a second each, of which it waits for data half the time."""
    house.submit(name, gpus=1)
    house.tick(2, seconds=1.0)
    (attempt,) = house.store.attempts(f"p/{name}")
    house.engine.set(attempt.id, ReplicaState.UP)
    house.tick()
    now = house.clock.now()
    windows = [(now + 1.0, 1, 1), (now + 1.0 + steps / 2, 1 + steps, steps)]
    lines = [
        {
            "t": at,
            "step": step,
            "steps": count,
            "seconds": count / 2,
            "longest": 0.5,
            "examples": 0,
            "waited": count / 4,
        }
        for at, step, count in windows
    ]
    told = [{"n": n, "t": 1.0, "s": "steps", "m": json.dumps(line)} for n, line in enumerate(lines, 1)]
    house.logs.append(attempt.id, "chief-0", told)
    house.clock.advance(1.0 + steps / 2)


def ends(house: House, name: str) -> None:
    (attempt,) = house.store.attempts(f"p/{name}")
    house.engine.set(attempt.id, ReplicaState.SUCCEEDED, exit_code=0)
    house.tick(3, seconds=1.0)
    assert house.job(name).ended_at is not None


def test_it_is_worked_out_while_it_lives_and_stands_when_it_has_ended(house: House, ledgers: Ledgers) -> None:
    trains(house, "j")
    living = ledgers.of(house.job())
    seconds = total(living.entries, living.weight)
    assert not living.is_final and living.weight == "accelerator"
    assert seconds[Phase.PRODUCTIVE] == seconds[Phase.INPUT] == pytest.approx(2.5)
    assert ledgers.settle() == 0, "it has not ended"
    ends(house, "j")
    assert ledgers.of(house.job()).is_final, "though the living one was worked out a moment ago"
    house.clock.advance(SETTLE_SECONDS + LIVE_SECONDS)
    before = ledgers.of(house.job())
    assert ledgers.settle() == 1 and ledgers.settle() == 0
    written = ledgers.of(house.job())
    assert written.is_final and [e.seconds for e in written.entries] == [
        {phase: pytest.approx(s, abs=1e-5) for phase, s in e.seconds.items()} for e in before.entries
    ]
    house.logs.forget("p/j")
    assert ledgers.of(house.job()) == written, "whatever becomes of its log"
    attempt = house.store.attempts("p/j")[0]
    assert attempt.ended_at is not None
    assert written.entries[0].held_seconds == pytest.approx(attempt.ended_at - attempt.placed_at, rel=1e-3)


def test_a_new_server_goes_on_with_the_file_of_the_old_one(house: House, ledgers: Ledgers, tmp_path: Path) -> None:
    trains(house, "j")
    ends(house, "j")
    house.clock.advance(60.0)
    ledgers.settle()
    again = Ledgers(tmp_path / "goodput.db", house.store, house.logs, LiveWorld(house.store), house.clock)
    assert again.settle() == 0 and again.of(house.job()) == ledgers.of(house.job())
    assert again.totals() == ledgers.totals() != {}


def test_totals_count_what_has_ended_once(house: House, ledgers: Ledgers) -> None:
    assert ledgers.totals() == {}
    for name in ("a", "b"):
        trains(house, name)
        ends(house, name)
    house.clock.advance(60.0)
    ledgers.settle()
    assert ledgers.totals()["p", "accelerator", Phase.PRODUCTIVE] == pytest.approx(5.0)
    ledgers.settle()
    assert ledgers.totals()["p", "accelerator", Phase.PRODUCTIVE] == pytest.approx(5.0)


def test_many_jobs_together_and_what_reaches_beyond_counts_in_part(house: House, ledgers: Ledgers) -> None:
    trains(house, "a")
    ends(house, "a")
    house.clock.advance(60.0)
    ledgers.settle()
    trains(house, "b", steps=100)
    now = house.clock.now()
    assert [kept.job for kept in ledgers.since(0.0, now)] == ["p/a", "p/b"]
    (kept,) = ledgers.since(now - 10.0, now)
    (entry,) = kept.ledger.entries
    assert kept.job == "p/b" and entry.held_seconds == pytest.approx(10.0)
    assert ledgers.since(0.0, 1.0) == []


def test_what_a_job_loses_by_the_site_s_fault_is_given_back_to_its_sharer_once(house: House, ledgers: Ledgers) -> None:
    trains(house, "j", steps=100)
    (first,) = house.store.attempts("p/j")
    house.engine.set(first.id, ReplicaState.LOST)
    house.tick(3, seconds=1.0)
    again = house.store.attempts("p/j")[-1]
    assert again.number == 2 and house.store.attempts("p/j")[0].cause is Cause.REPLICA_LOST
    ledgers.credit()
    assert house.job().credited_seconds == 0.0, "what it has lost is known when it goes on"
    house.engine.set(again.id, ReplicaState.UP)
    house.tick()
    at = house.clock.now() + 1.0
    resumed = {"at": at - 0.5, "resumed": 61}
    step = {"t": at, "step": 1, "steps": 1, "seconds": 0.5, "longest": 0.5, "examples": 0}
    told = [{"n": n, "t": 1.0, "s": "steps", "m": json.dumps(line)} for n, line in enumerate([resumed, step], 1)]
    house.logs.append(again.id, "chief-0", told)
    house.clock.advance(LIVE_SECONDS + 1.0)
    ledgers.credit()
    lost = house.job().credited_seconds
    assert lost == pytest.approx(40 * 0.5, abs=2.0), "the steps beyond the 61st, and what came before it was lost"
    ledgers.credit()
    assert house.job().credited_seconds == lost
    (line,) = [line for line in house.store.story("p/j") if isinstance(line.change, Credit)]
    assert line.by == "goodput" and line.change.until == house.store.attempts("p/j")[0].ended_at
    house.tick()
