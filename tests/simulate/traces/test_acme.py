"""Acme."""

from __future__ import annotations

from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import ACME


class TestAcme(TraceContract):
    name = "acme"

    def test_the_run_time_is_without_the_waiting_that_its_duration_holds(self) -> None:
        assert [job.run_seconds for job in self.read(ACME).jobs] == [8, 70]

    def test_memory_is_that_of_all_pods(self) -> None:
        first, _ = self.read(ACME).jobs
        assert (first.gpus_milli, first.nodes, first.memory_gb, first.program) == (64000, 8, 8000, "Pretrain")

    def test_the_zero_keeps_its_zone(self) -> None:
        trace = self.read(ACME)
        assert trace.time_zero == "2023-05-17 11:00:58+00:00" and trace.dropped == {"has no end": 1}
