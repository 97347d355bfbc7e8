"""Alibaba PAI as its simulator reads it (`pai_job_*_100K.csv`): one row a job.

GPUs and CPUs are those of one instance, as its scheduler multiplies them by `num_inst`. A run time of 0 counts as 1 s, as
there.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns, milli
from stoker.simulate.trace import Trace, TraceJob


class PaiSimulator:
    """`job_id,num_gpu,submit_time,num_inst,num_cpu,duration[,user,gpu_type,group,…]`."""

    columns = ("job_id", "num_gpu", "submit_time", "num_inst", "num_cpu", "duration")
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Times are seconds; GPUs are whole ones or shares (0.5)."""
        return assemble(source, Table(source, self.columns).collect(_job))


def _job(row: Row) -> TraceJob:
    instances = row.count("num_inst", least=1, otherwise=1)
    model = row.text("gpu_type")
    gpus_milli = milli(instances * row.number("num_gpu", least=0, otherwise=0))
    return TraceJob(
        name=row.name("job_id"),
        submitted_at=row.number("submit_time", least=0),
        run_seconds=max(1.0, row.number("duration", least=0)),
        gpus_milli=gpus_milli,
        accelerators=(model,) if gpus_milli and model not in ("", "CPU") else (),
        vcpus=instances * row.number("num_cpu", least=0, otherwise=0),
        user=row.text("user"),
        program=row.text("group"),
        outcome=row.text("status"),
    )
