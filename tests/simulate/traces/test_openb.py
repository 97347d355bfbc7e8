"""Alibaba's openb."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.errors import BadSpec
from stoker.simulate.trace import TraceNode, read_trace
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import OPENB

NODES = "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\nopenb-node-0001,32000,1024,0,\n"


class TestOpenb(TraceContract):
    name = "openb"

    def test_shares_whole_gpus_and_none(self) -> None:
        jobs = self.read(OPENB).jobs
        assert [job.gpus_milli for job in jobs] == [1000, 460, 2000, 0]
        assert jobs[1].accelerators == ("V100M16", "V100M32") and jobs[0].accelerators == ()
        assert (jobs[1].vcpus, jobs[1].memory_gb, jobs[1].queue, jobs[1].outcome) == (6, 12, "LS", "Failed")

    def test_run_time_counts_from_being_scheduled_or_else_from_creation(self) -> None:
        trace = self.read(OPENB)
        assert [job.run_seconds for job in trace.jobs] == [12537496, 12902960 - 427070, 100, 1]
        assert trace.notes == ("pods never scheduled, whose run time is counted from creation: 1",)

    def test_nodes_are_taken_from_beside(self, tmp_path: Path) -> None:
        (tmp_path / "openb_pod_list_default.csv").write_text(OPENB)
        (tmp_path / "openb_pod_list_cpu050.csv").write_text(OPENB)
        (tmp_path / "openb_node_list_all_node.csv").write_text(NODES)
        assert read_trace(tmp_path).nodes == (
            TraceNode(name="openb-node-0000", gpus=2, accelerator="P100", vcpus=64, memory_gb=256),
            TraceNode(name="openb-node-0001", gpus=0, vcpus=32, memory_gb=1),
        )
        (tmp_path / "openb_node_list_gpu_node.csv").write_text("".join(NODES.splitlines(keepends=True)[:2]))
        assert len(read_trace(tmp_path / "openb_pod_list_cpu050.csv").nodes) == 1

    def test_a_wrong_node_list_is_told_by_its_own_name(self, tmp_path: Path) -> None:
        (tmp_path / "openb_pod_list_default.csv").write_text(OPENB)
        (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES.replace("64000", "many"))
        with pytest.raises(BadSpec, match=r"openb_node_list_gpu_node.csv:2: cpu_milli is 'many', not a number"):
            read_trace(tmp_path)

    def test_a_list_without_times_is_for_placement_alone(self) -> None:
        trace = self.read("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,500\nb,1,1,8,1000\n")
        assert [(job.submitted_at, job.run_seconds, job.gpus_milli) for job in trace.jobs] == [
            (0, 1, 500),
            (0, 1, 8000),
        ]
        assert "no times" in trace.notes[0]

    @pytest.mark.parametrize("row", ["p,1,1,1,0,,,,0,9,0", "p,1,1,1,1001,,,,0,9,0", "p,1,1,1,500,,,,9,5,9"])
    def test_what_cannot_be_is_refused(self, row: str) -> None:
        with pytest.raises(BadSpec, match=r"openb_pod_list_default\.csv:6: "):
            self.read(OPENB + row + "\n")
