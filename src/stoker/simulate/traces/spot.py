"""Alibaba cluster-trace-v2026-spot-gpu: `job_info_df.csv`, with `node_info_df.csv` beside it.

Requests are those of one worker. A high-priority job (HP) has priority 1, a Spot job 0.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.problems import Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns, milli
from stoker.simulate.trace import Trace, TraceJob, TraceNode

PRIORITIES = {"HP": 1, "Spot": 0}
NODE_COLUMNS = ("node_name", "gpu_model", "gpu_capacity_num", "cpu_num")


class Spot:
    """`job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type`."""

    columns = (
        *("job_name", "organization", "gpu_model", "cpu_request", "gpu_request"),
        *("worker_num", "submit_time", "duration", "job_type"),
    )
    usual = "job_info_df"

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Times are seconds from the first submission."""
        beside = source.sibling("node_info_df")
        nodes = [node for _, node in Table(beside, NODE_COLUMNS).collect(_node).rows] if beside else []
        return assemble(source, Table(source, self.columns).collect(_job), nodes=nodes)


def _job(row: Row) -> TraceJob:
    workers = row.count("worker_num", least=1)
    kind = row.text("job_type")
    if kind not in PRIORITIES:
        raise Wrong(f"job_type is {kind[:40]!r}, and must be {' or '.join(PRIORITIES)}")
    gpus_milli = milli(workers * row.number("gpu_request", least=0))
    model = row.text("gpu_model")
    return TraceJob(
        name=row.name("job_name"),
        submitted_at=row.number("submit_time", least=0),
        run_seconds=row.above_zero("duration"),
        gpus_milli=gpus_milli,
        accelerators=(model,) if gpus_milli and model else (),
        vcpus=workers * row.number("cpu_request", least=0, otherwise=0),
        queue=row.text("organization"),
        priority=PRIORITIES[kind],
    )


def _node(row: Row) -> TraceNode:
    return TraceNode(
        name=row.name("node_name"),
        gpus=row.count("gpu_capacity_num"),
        accelerator=row.text("gpu_model"),
        vcpus=row.number("cpu_num", least=0),
    )
