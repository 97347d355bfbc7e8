"""Alibaba's spot trace of 2026."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.errors import BadSpec
from stoker.simulate.trace import TraceNode, read_trace
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import SPOT


class TestSpot(TraceContract):
    name = "spot"

    def test_requests_are_those_of_one_worker(self) -> None:
        first, second, third = self.read(SPOT).jobs
        assert [job.gpus_milli for job in (first, second, third)] == [1000, 16000, 16000]
        assert (second.vcpus, second.queue, second.accelerators) == (240, "57", ("A100-SXM4-80GB",))
        assert [job.priority for job in (first, second, third)] == [1, 0, 0]

    def test_nodes_are_taken_from_beside(self, tmp_path: Path) -> None:
        (tmp_path / "job_info_df.csv").write_text(SPOT)
        (tmp_path / "node_info_df.csv").write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\n0,A10,1,128\n")
        assert read_trace(tmp_path).nodes == (TraceNode(name="0", gpus=1, accelerator="A10", vcpus=128),)

    def test_another_type_of_job_is_refused(self) -> None:
        with pytest.raises(BadSpec, match="job_type is 'Batch', and must be HP or Spot"):
            self.read(SPOT.replace("HP", "Batch"))
