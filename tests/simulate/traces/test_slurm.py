"""What sacct prints."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import SLURM


class TestSlurm(TraceContract):
    name = "slurm"

    def test_jobs_and_elements_of_arrays(self) -> None:
        first, second, third = self.read(SLURM).jobs
        assert [job.name for job in (first, second, third)] == ["12", "13_3", "15"]
        assert (first.run_seconds, first.gpus_milli, first.accelerators) == (90000, 2000, ("a100",))
        assert (first.vcpus, first.memory_gb, first.user, first.queue, first.program) == (8, 64, "ann", "gpu", "train")
        assert (second.gpus_milli, second.accelerators, second.memory_gb, second.outcome) == (
            1000,
            (),
            15.625,
            "TIMEOUT",
        )
        assert (third.gpus_milli, third.nodes, third.memory_gb, third.priority) == (0, 2, 1024, 9)
        assert self.read(SLURM).time_zero == "2025-01-01 08:00:00"

    def test_steps_and_what_never_ran_or_still_runs_are_counted(self) -> None:
        assert self.read(SLURM).dropped == {
            "a step of a job": 2,
            "cancelled before it started": 1,
            "still running": 1,
            "never started": 1,
        }

    def test_a_bar_at_the_end_of_each_line_is_no_column(self) -> None:
        assert self.read(SLURM.replace("\n", "|\n")).jobs == self.read(SLURM).jobs

    def test_without_elapsed_the_run_time_is_from_start_to_end(self) -> None:
        text = "JobID|State|Submit|Start|End|ReqTRES\n1|COMPLETED|1735718400|1735718460|1735718520|gres/gpu:h100=4\n"
        (job,) = self.read(text).jobs
        assert (job.run_seconds, job.gpus_milli, job.accelerators) == (60, 4000, ("h100",))

    def test_resources_must_be_there_in_one_of_two_columns(self) -> None:
        with pytest.raises(BadSpec, match=r"column AllocTRES, End is missing; found JobID, State, Submit, Start"):
            self.read("JobID|State|Submit|Start\n1|COMPLETED|1|2\n")

    def test_a_requeued_job_is_told_what_to_do(self) -> None:
        with pytest.raises(BadSpec, match="job 15 stands already in line") as caught:
            self.read(SLURM + next(line for line in SLURM.splitlines(keepends=True) if line.startswith("15|")))
        assert "without --duplicates" in caught.value.fix

    @pytest.mark.parametrize(
        ("old", "new", "what"),
        [
            ("1-01:00:00", "a day", "Elapsed is 'a day', not"),
            ("mem=64G", "mem=lots", "mem is 'lots', not a size"),
            ("gres/gpu=2", "gres/gpu=two", "gres/gpu is 'two', not a number"),
            ("cpu=8,gres", "cpu,gres", "is not a list of resources"),
            ("2025-01-02T09:00:30", "2025-01-01T07:00:00", "End is 2025-01-01T07:00:00, before Start"),
            ("train-7", "a|b", "16 fields, where the header has 15"),
        ],
    )
    def test_what_cannot_be_is_refused(self, old: str, new: str, what: str) -> None:
        with pytest.raises(BadSpec, match=f"sacct.txt:2: .*{what}"):
            self.read(SLURM.replace(old, new))
