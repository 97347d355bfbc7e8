"""Shanghai AI Lab's Acme (NSDI'24): `trace_seren.csv` and `trace_kalos.csv`.

The run time is from start to end: in Kalos the column `duration` holds the waiting too, whatever its documentation says.
Its column `queue` is seconds of waiting; it has no queues.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.calendar import Calendar
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns
from stoker.simulate.trace import Trace, TraceJob


class Acme:
    """`job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time`."""

    columns = (
        *("job_id", "user", "node_num", "gpu_num", "cpu_num", "type"),
        *("state", "submit_time", "start_time", "end_time"),
    )
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Times of day have a zone."""
        calendar = Calendar()

        def job(row: Row) -> TraceJob:
            nodes = row.count("node_num", otherwise=0)
            return TraceJob(
                name=row.name("job_id"),
                submitted_at=calendar.seconds("submit_time", row.text("submit_time")),
                run_seconds=calendar.ran(row.text("start_time"), row.text("end_time")),
                gpus_milli=row.gpus("gpu_num"),
                vcpus=row.number("cpu_num", least=0, otherwise=0),
                memory_gb=max(1, nodes) * row.number("mem_per_pod_GB", least=0, otherwise=0),
                user=row.text("user"),
                program=row.text("type"),
                outcome=row.text("state"),
                nodes=nodes,
            )

        return assemble(source, Table(source, self.columns).collect(job), calendar=calendar)
