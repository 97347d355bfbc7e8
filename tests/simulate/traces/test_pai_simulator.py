"""Alibaba PAI as its simulator reads it."""

from __future__ import annotations

from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import PAI_SIMULATOR


class TestPaiSimulator(TraceContract):
    name = "pai-simulator"

    def test_requests_are_those_of_one_instance(self) -> None:
        first, second, third = self.read(PAI_SIMULATOR).jobs
        assert (first.gpus_milli, first.vcpus, first.accelerators) == (1000, 12, ("T4",))
        assert (third.gpus_milli, third.accelerators, third.user) == (0, (), "9a")
        assert second.run_seconds == 1  # of 0

    def test_numbers_as_names_come_in_the_order_of_numbers(self) -> None:
        assert [job.name for job in self.read(PAI_SIMULATOR).jobs] == ["007", "012", "101"]
