"""The trace of Chronus (SoCC'21): Philly's jobs, with deadlines.

Its times are scaled by an amount that nobody says: good for the logic of deadlines, not for absolute figures.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.problems import LeftOut, Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns
from stoker.simulate.trace import Trace, TraceJob


class Chronus:
    """`job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,…,best_effort,job_type`."""

    columns = ("job_id", "user", "num_gpu", "submit_time", "model_name", "duration", "expect_time_list", "best_effort")
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """A trace of Chronus: `user` is a virtual cluster; of several deadlines the first counts."""
        notes = ["times are scaled by an unstated amount"]
        return assemble(source, Table(source, self.columns).collect(_job), notes=notes)


def _job(row: Row) -> TraceJob:
    gpus_milli = row.gpus("num_gpu")
    if not gpus_milli:
        raise LeftOut("asked for no GPU")
    return TraceJob(
        name=row.name("job_id"),
        submitted_at=row.number("submit_time", least=0),
        run_seconds=row.above_zero("duration"),
        gpus_milli=gpus_milli,
        queue=row.text("user"),
        program=row.text("model_name"),
        deadline_seconds=None if row.count("best_effort", otherwise=0) else _deadline(row),
    )


def _deadline(row: Row) -> float:
    """The first of `282` or `282-400-900`."""
    text = row.text("expect_time_list")
    try:
        seconds = float(text.partition("-")[0])
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise Wrong(f"expect_time_list is {text[:40]!r}, not seconds after submission")
    return seconds
