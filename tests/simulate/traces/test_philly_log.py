"""Philly as it was published."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import PHILLY_LOG


class TestPhillyLog(TraceContract):
    name = "philly-log"

    def test_a_job_is_all_its_attempts(self) -> None:
        first, second = self.read(PHILLY_LOG).jobs
        assert (first.run_seconds, first.gpus_milli, first.nodes, first.outcome) == (60 + 3600, 4000, 2, "Pass")
        assert (first.user, first.queue, first.submitted_at, second.submitted_at) == ("ce2f4c", "ee9e8c", 0, 2)

    def test_what_never_ran_or_never_ended_is_left_out(self) -> None:
        assert self.read(PHILLY_LOG).dropped == {"never ran": 1, "still ran when the log was taken, or has no end": 1}

    def test_an_attempt_in_the_night_when_clocks_are_set_back_is_no_fault(self) -> None:
        text = PHILLY_LOG.replace("2017-10-07 02:14:00", "2017-10-07 01:10:00")
        assert self.read(text).jobs[0].run_seconds == 60

    def test_an_attempt_that_ends_before_it_starts_is_told_with_its_place(self) -> None:
        with pytest.raises(BadSpec, match=r"cluster_job_log:\[0\]: an attempt ends at 2017-10-06 02:14:00, before"):
            self.read(PHILLY_LOG.replace("2017-10-07 02:14:00", "2017-10-06 02:14:00"))

    @pytest.mark.parametrize("text", ["{}", "[1]", '[{"jobid": "a"}]', "[" * 100_000, '[{"jobid": ["a"]}]', "[}"])
    def test_other_json_is_refused(self, text: str) -> None:
        with pytest.raises(BadSpec):
            self.read(text)
