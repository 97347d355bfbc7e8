"""Microsoft Philly as the Sia artifact has it: one row a job, with its run time, its GPUs and its virtual cluster.

No user, no outcome, no node and no name: a job is called after its row. Cite ATC'19, "Analysis of Large-Scale
Multi-Tenant GPU Clusters for DNN Training Workloads".
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.calendar import Calendar
from stoker.simulate.reading.problems import LeftOut
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns
from stoker.simulate.trace import Trace, TraceJob


class Philly:
    """`timestamp,duration,num_gpus,gpu_time,cluster`."""

    columns = ("timestamp", "duration", "num_gpus", "cluster")
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Run times are seconds, times of day are a wall clock without a zone."""
        calendar = Calendar()

        def job(row: Row) -> TraceJob:
            gpus_milli = row.gpus("num_gpus")
            if not gpus_milli:
                raise LeftOut("asked for no GPU")
            return TraceJob(
                name=f"{row.line - 1:06d}",
                submitted_at=calendar.seconds("timestamp", row.text("timestamp")),
                run_seconds=row.above_zero("duration"),
                gpus_milli=gpus_milli,
                queue=row.text("cluster"),
            )

        return assemble(source, Table(source, self.columns).collect(job), calendar=calendar)
