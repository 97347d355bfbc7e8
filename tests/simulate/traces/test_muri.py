"""Muri's traces."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import MURI


class TestMuri(TraceContract):
    name = "muri"

    def test_its_times_are_milliseconds(self) -> None:
        first, second, _ = self.read(MURI).jobs
        assert (first.run_seconds, second.submitted_at) == (2868294, 201694)
        assert (second.gpus_milli, second.program, second.priority) == (8000, "dqn", 0)

    def test_a_missing_column_is_named_with_those_that_are_there(self) -> None:
        with pytest.raises(BadSpec, match=r"trace1.csv:1: column duration is missing; found job_id, num_gpu, .*run_ms"):
            self.read(MURI.replace("duration", "run_ms"))
