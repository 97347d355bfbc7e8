"""SenseTime's Helios (SC'21): `cluster_log.csv` of one of its clusters.

The run time is from start to end; its column `queue` is seconds of waiting, its queues are the virtual clusters `vc`.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.calendar import Calendar
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns
from stoker.simulate.trace import Trace, TraceJob


class Helios:
    """`job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue`."""

    columns = (
        *("job_id", "user", "vc", "gpu_num", "cpu_num", "node_num"),
        *("state", "submit_time", "start_time", "end_time"),
    )
    usual = "cluster_log"

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Times of day are a wall clock without a zone."""
        calendar = Calendar()

        def job(row: Row) -> TraceJob:
            return TraceJob(
                name=row.name("job_id"),
                submitted_at=calendar.seconds("submit_time", row.text("submit_time")),
                run_seconds=calendar.ran(row.text("start_time"), row.text("end_time")),
                gpus_milli=row.gpus("gpu_num"),
                vcpus=row.number("cpu_num", least=0, otherwise=0),
                user=row.text("user"),
                queue=row.text("vc"),
                outcome=row.text("state"),
                nodes=row.count("node_num", otherwise=0),
            )

        return assemble(source, Table(source, self.columns).collect(job), calendar=calendar)
