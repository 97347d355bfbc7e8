"""Helios."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import HELIOS


class TestHelios(TraceContract):
    name = "helios"

    def test_queues_are_virtual_clusters(self) -> None:
        first, second, third = self.read(HELIOS).jobs
        assert (first.queue, first.run_seconds, first.outcome) == ("vcJkd", 36848, "COMPLETED")
        assert (second.gpus_milli, second.vcpus, second.nodes, second.run_seconds) == (16000, 64, 2, 249)
        assert third.gpus_milli == 0

    def test_what_never_ran_is_left_out(self) -> None:
        assert self.read(HELIOS).dropped == {"never started": 1, "ran for 0 s": 1}

    def test_an_end_before_the_start_is_refused(self) -> None:
        with pytest.raises(BadSpec, match=r"cluster_log.csv:2: end_time is 2020-06-08 04:55:09, before start_time"):
            self.read(HELIOS.replace("2020-06-10 04:55:09", "2020-06-08 04:55:09"))
