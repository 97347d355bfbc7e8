"""Philly as Sia has it."""

from __future__ import annotations

from datetime import date

import pytest

from stoker.core.errors import BadSpec
from tests.contract.trace_contract import TraceContract
from tests.simulate.traces.samples import PHILLY


class TestPhilly(TraceContract):
    name = "philly"

    def test_a_row_is_a_job(self) -> None:
        first, second, third = self.read(PHILLY).jobs
        assert (first.name, first.submitted_at, first.run_seconds, first.gpus_milli) == ("000001", 0, 2240, 8000)
        assert (third.queue, third.gpus_milli, third.run_seconds) == ("7f04ca", 16000, 3600.5)
        assert second.submitted_at == 27 * 86400 + 48559

    def test_rows_without_gpus_are_left_out_and_counted(self) -> None:
        assert self.read(PHILLY).dropped == {"asked for no GPU": 1}

    def test_days_are_whole_and_by_its_own_calendar(self) -> None:
        day = self.read(PHILLY).days(date(2017, 10, 2), date(2017, 10, 2))
        assert [job.submitted_at for job in day.jobs] == [0, 86399] and day.time_zero == "2017-10-02 00:00:00"

    def test_every_wrong_line_is_told_at_once(self) -> None:
        lines = PHILLY.splitlines()
        bad = [
            "2017-10-02 00:00:00,-5,1,1,c",
            "yesterday,5,1,1,c",
            "2017-10-02 00:00:00,nan,1,1,c",
            "2017-10-02 00:00:00,0,1,1,c",
        ]
        bad += ["2017-10-02 00:00:00,5,1.5,1,c", "2017-10-02 00:00:00,5,-1,1,c", "2017-10-02 00:00:00,5"]
        with pytest.raises(BadSpec) as caught:
            self.read("\n".join([lines[0], *bad, *lines[1:]]))
        assert [(v.field, v.description) for v in caught.value.violations] == [
            ("philly.csv:2", "duration is '-5', and must be above 0"),
            ("philly.csv:3", "timestamp is 'yesterday', not a date and time such as 2017-10-02 08:00:00"),
            ("philly.csv:4", "duration is 'nan', not a number"),
            ("philly.csv:5", "duration is '0', and must be above 0"),
            ("philly.csv:6", "num_gpus is 1.5, not a whole number"),
            ("philly.csv:7", "num_gpus is '-1', below 0"),
            ("philly.csv:8", "2 fields, where the header has 5"),
        ]
        assert caught.value.fix == "correct these lines of the file, or take them out"

    def test_of_many_wrong_lines_twenty_are_told_and_the_rest_counted(self) -> None:
        with pytest.raises(BadSpec) as caught:
            self.read(PHILLY + "2017-10-02 00:00:00,x,1,1,c\n" * 50)
        assert len(caught.value.violations) == 21
        assert caught.value.violations[-1].description == "and 30 more"

    def test_times_with_and_without_a_zone_do_not_mix(self) -> None:
        with pytest.raises(BadSpec, match="have a zone"):
            self.read(PHILLY + "2017-10-02 00:00:00+02:00,5,1,5,c\n")
