"""The traces of Muri (SIGCOMM'22): Philly's virtual clusters with a model drawn for each job.

Its times are MILLISECONDS. Its `priority` is drawn for AntMan and no order of the queue, so it is not taken.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns
from stoker.simulate.trace import Trace, TraceJob

MILLISECONDS = 1000


class Muri:
    """`job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,…`."""

    columns = ("job_id", "num_gpu", "submit_time", "model_name", "duration", "iteration_time", "resource_time_0")
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Times are milliseconds from the trace's own zero."""
        return assemble(source, Table(source, self.columns).collect(_job))


def _job(row: Row) -> TraceJob:
    return TraceJob(
        name=row.name("job_id"),
        submitted_at=row.number("submit_time", least=0) / MILLISECONDS,
        run_seconds=row.above_zero("duration") / MILLISECONDS,
        gpus_milli=row.gpus("num_gpu", least=1),
        program=row.text("model_name"),
    )
