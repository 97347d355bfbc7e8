"""Alibaba PAI as it was published."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.errors import BadSpec
from stoker.simulate.trace import read_trace
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import PAI

JOBS = "a1,inst-a,ann,Terminated,950.0,1610.0\nb2,inst-b,bob,Failed,1990.0,2100.0\n"
HEADER = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"


class TestPai(TraceContract):
    name = "pai"

    def test_a_job_is_all_its_tasks(self) -> None:
        job, other = self.read(PAI).jobs
        assert (job.name, job.submitted_at, job.run_seconds, job.gpus_milli) == ("a1", 990, 620, 1000)
        assert (job.vcpus, job.memory_gb, job.accelerators, job.program) == (16, 68.5, ("T4",), "worker")
        assert (other.accelerators, other.outcome) == (("MISC",), "Failed")

    def test_what_never_started_or_ended_is_left_out(self) -> None:
        assert self.read(PAI).dropped == {"has no end": 1, "never started": 1}

    def test_a_header_may_stand_there(self) -> None:
        assert self.read(HEADER + PAI).jobs == self.read(PAI).jobs

    def test_the_job_table_beside_it_gives_user_and_submission(self, tmp_path: Path) -> None:
        (tmp_path / "pai_task_table.csv").write_text(PAI)
        (tmp_path / "pai_job_table.csv").write_text(JOBS)
        (tmp_path / "pai_task_table.header").write_text(HEADER)
        for path in (tmp_path, tmp_path / "pai_job_table.csv", tmp_path / "pai_task_table.csv"):
            job = read_trace(path).jobs[0]
            assert (job.user, job.submitted_at, job.run_seconds) == ("ann", 950, 620)

    def test_the_job_table_alone_says_nothing_of_gpus(self, tmp_path: Path) -> None:
        (tmp_path / "pai_job_table.csv").write_text(JOBS)
        with pytest.raises(BadSpec, match="does not lie beside it") as caught:
            read_trace(tmp_path / "pai_job_table.csv")
        assert "pai_task_table.csv" in caught.value.fix

    def test_a_job_that_ends_before_it_starts_is_refused(self) -> None:
        with pytest.raises(BadSpec, match=r"pai_task_table.csv:6: end_time is 5, before start_time 1000"):
            self.read(PAI + "e5,worker,1,Failed,1000,5,600,1,100,T4\n")
