"""Chronus."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import CHRONUS


class TestChronus(TraceContract):
    name = "chronus"

    def test_deadlines(self) -> None:
        assert [job.deadline_seconds for job in self.read(CHRONUS).jobs] == [282, 88, None]

    def test_its_user_is_a_queue(self) -> None:
        first = self.read(CHRONUS).jobs[0]
        assert (first.queue, first.user, first.name) == ("vc_103959", "", "00")

    def test_a_deadline_that_is_none_is_refused(self) -> None:
        with pytest.raises(BadSpec, match=r"csv:2: expect_time_list is 'soon', not seconds"):
            self.read(CHRONUS.replace("282", "soon"))
