"""The engine contract over every engine that runs here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.core.launch import Launch
from stoker.core.states import ReplicaState
from stoker.engines.base import Engine
from stoker.engines.fake import FakeEngine
from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.isolation import LEVEL_0, Isolation
from stoker.runtime.zipapp import build
from tests.builders import a_node

from .engine_contract import ATTEMPT, EngineContract, RegainsNodesContract, a_launch

LEASE_SECONDS = 60.0


class TestFakeEngine(EngineContract, RegainsNodesContract):
    """In memory; the test is the world."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        self.clock = ManualClock()
        return FakeEngine([a_node("local", lease_seconds=LEASE_SECONDS)], self.clock)

    def endless(self) -> Launch:
        return a_launch(lease_seconds=LEASE_SECONDS)

    def cut_off(self, engine: Engine) -> None:
        assert isinstance(engine, FakeEngine)
        engine.cut_off("local")

    def bring_back(self, engine: Engine) -> None:
        assert isinstance(engine, FakeEngine)
        engine.comes_back("local")

    def let_the_lease_end(self, engine: Engine) -> None:
        self.clock.advance(LEASE_SECONDS)

    def runs(self, engine: Engine) -> bool:
        assert isinstance(engine, FakeEngine)
        return bool(engine.running(ATTEMPT))

    def end(self, engine: Engine) -> None:
        assert isinstance(engine, FakeEngine)
        engine.set(ATTEMPT, ReplicaState.SUCCEEDED)

    def answers(self, engine: Engine) -> list[str]:
        assert isinstance(engine, FakeEngine)
        return [json.dumps({**request, "is_over": True}) for _, request in engine.asked if request["id"] == "now"]

    def gone(self, engine: Engine) -> None:
        assert isinstance(engine, FakeEngine)
        engine.gone(ATTEMPT)


class TestLocalEngine(EngineContract):
    """Real processes. No server is there: what they ship stays on disk."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        self.flag = tmp_path / "end"
        engine = a_local_engine(tmp_path)
        yield engine
        engine.stop(ATTEMPT, force=True)

    def endless(self) -> Launch:
        script = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
        return a_launch(sys.executable, "-c", script, str(self.flag))

    def end(self, engine: Engine) -> None:
        self.flag.touch()


def a_local_engine(home: Path, isolation: Isolation = LEVEL_0) -> LocalEngine:
    """An engine of this machine whose server does not answer."""
    return LocalEngine(
        home,
        nodes=[a_node("local", soft=True)],
        runtime=Path(build(str(home / "cache"))),
        server_url="http://127.0.0.1:9",
        token=lambda attempt: "t",
        uv=os.path.join(os.path.dirname(sys.executable), "uv"),
        isolation=isolation,
    )
