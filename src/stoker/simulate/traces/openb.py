"""Alibaba cluster-trace-gpu-v2023 (openb): tasks that share GPUs, and the nodes of the cluster.

The pod list is named, or the folder; the node list is taken from beside it: `openb_node_list_gpu_node`, as the FGD
artifact does, or `openb_node_list_all_node` where only that is there. A pod that was never scheduled is kept for
experiments with placement, its run time counted from its creation; its outcome is Pending. A list without times
(`multigpu*`) is for placement alone: everything at 0, for one second.
"""

from __future__ import annotations

from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.problems import Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns, milli
from stoker.simulate.trace import Trace, TraceJob, TraceNode

MIB_PER_GB = 1024
SHORTEST_SECONDS = 1.0  # times are whole seconds, and a pod that ran for none is still to be placed
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


class Openb:
    """`name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time]`."""

    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    usual = "openb_pod_list_default"

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, self.columns)

    def read(self, source: Source) -> Trace:
        """Times are seconds from the trace's own zero."""
        table = Table(source, self.columns)
        timed = table.has("creation_time") and table.has("deletion_time")
        found = table.collect(_timed if timed else _untimed)
        never = sum(job.outcome == "Pending" for _, job in found.rows)
        notes = [] if timed else ["no times: every pod is submitted at 0 and runs for 1 s, for placement alone"]
        notes += [f"pods never scheduled, whose run time is counted from creation: {never}"] if never else []
        list_of_nodes = source.sibling("openb_node_list_gpu_node", "openb_node_list_all_node")
        nodes = [node for _, node in Table(list_of_nodes, NODE_COLUMNS).collect(_node).rows] if list_of_nodes else []
        return assemble(source, found, nodes=nodes, notes=notes)


def _timed(row: Row) -> TraceJob:
    created, deleted = row.number("creation_time", least=0), row.number("deletion_time", least=0)
    started = row.number("scheduled_time", least=0, otherwise=created)
    if deleted < started:
        raise Wrong(f"deletion_time is {deleted:.10g}, before its start at {started:.10g}")
    return _pod(row, created, max(SHORTEST_SECONDS, deleted - started))


def _untimed(row: Row) -> TraceJob:
    return _pod(row, 0.0, SHORTEST_SECONDS)


def _pod(row: Row, submitted_at: float, run_seconds: float) -> TraceJob:
    gpus, share = row.count("num_gpu"), row.count("gpu_milli")
    if share > 1000 or (gpus == 1 and share == 0):
        raise Wrong(f"gpu_milli is {share} of num_gpu {gpus}, and must be between 1 and 1000")
    return TraceJob(
        name=row.name("name"),
        submitted_at=submitted_at,
        run_seconds=run_seconds,
        gpus_milli=share if gpus == 1 else milli(gpus),
        accelerators=tuple(part for part in row.text("gpu_spec").split("|") if part),
        vcpus=row.number("cpu_milli", least=0) / 1000,
        memory_gb=row.number("memory_mib", least=0) / MIB_PER_GB,
        queue=row.text("qos"),
        outcome=row.text("pod_phase"),
        nodes=1,
    )


def _node(row: Row) -> TraceNode:
    return TraceNode(
        name=row.name("sn"),
        gpus=row.count("gpu"),
        accelerator=row.text("model"),
        vcpus=row.number("cpu_milli", least=0) / 1000,
        memory_gb=row.number("memory_mib", least=0) / MIB_PER_GB,
    )
