"""Gavel's and Shockwave's traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.errors import BadSpec
from stoker.simulate.trace import read_trace
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import GAVEL


class TestGavel(TraceContract):
    name = "gavel"

    def test_columns_by_their_place(self) -> None:
        first, second, third = self.read(GAVEL).jobs
        assert (first.program, first.run_seconds, first.submitted_at) == ("LM (batch size 10)", 1418, 0)
        assert (second.gpus_milli, third.gpus_milli, second.name) == (2000, 4000, "000002")

    def test_an_slo_is_so_many_times_the_run_time(self) -> None:
        first, second, _ = self.read(GAVEL).jobs
        assert first.deadline_seconds is None and second.deadline_seconds == 1.5 * 3338

    def test_the_form_without_run_times_says_so(self, tmp_path: Path) -> None:
        path = tmp_path / "gavel.trace"
        path.write_text("ResNet-18\tpython3 main.py\tcifar10\t--num_steps\t1\t143450\t2\t1\t-1.0\t55\n")
        with pytest.raises(BadSpec, match="without a run time"):
            read_trace(path)
