"""The engine without machines keeps the contract of all engines, and alone knows how long jobs run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.core.job import Attempt
from stoker.core.launch import Launch
from stoker.core.states import ReplicaState
from stoker.engines.base import Engine, Seen
from stoker.simulate.engine import Costs, SimulatedEngine
from tests.builders import a_node
from tests.contract.engine_contract import EngineContract, a_launch

JOB = "p/j"


class Remembering(SimulatedEngine):
    """Says again what it last saw: the contract asks like somebody who was not there before."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        super().__init__([a_node("local")], self.clock, {JOB: 100.0}, Costs(restart_seconds=30.0, lost_seconds=5.0))
        self._last: dict[str, Sequence[Seen]] = {}

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What was last seen."""
        nothing = {id: [Seen(role="chief", index=0, state=ReplicaState.NOTHING)] for id in attempts}
        self._last |= super().poll(attempts)
        return {**nothing, **self._last}


class TestSimulatedEngine(EngineContract):
    """In virtual time."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return Remembering()

    def endless(self) -> Launch:
        return a_launch()

    def end(self, engine: Engine) -> None:
        assert isinstance(engine, Remembering)
        engine.clock.advance(1000.0)

    def answers(self, engine: Engine) -> list[str]:
        return ['{"id": "now", "is_over": true}']  # its jobs have no processes, and nobody asks


def start(engine: SimulatedEngine, number: int) -> str:
    attempt = f"{JOB}.{number}"
    engine.start(engine.render(replace(a_launch(), attempt=attempt)))
    return attempt


def test_it_knows_what_is_left() -> None:
    """60 s done, 5 of them lost: 45 and a restart are left, whether it waits or has just been started again."""
    engine = Remembering()
    assert engine.left_seconds(JOB) == 100
    first = start(engine, 1)
    engine.clock.advance(60.0)
    assert engine.left_seconds(JOB) == 40
    engine.stop(first, force=True)
    assert engine.left_seconds(JOB) == 45 + 30
    start(engine, 2)
    assert engine.left_seconds(JOB) == 75 and engine.next_event() == 60 + 75
    engine.clock.advance(500.0)
    assert engine.left_seconds(JOB) == 0


def test_stopped_while_it_restarts_it_has_done_nothing() -> None:
    engine = Remembering()
    engine.stop(start(engine, 1), force=True)
    second = start(engine, 2)
    engine.clock.advance(10.0)
    engine.stop(second, force=True)
    assert engine.left_seconds(JOB) == 100 + 30


def test_nothing_happens_when_nothing_runs() -> None:
    engine = Remembering()
    assert engine.next_event() == float("inf")
    engine.stop(start(engine, 1), force=True)
    assert engine.next_event() == float("inf")
