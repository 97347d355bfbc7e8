"""Alibaba cluster-trace-gpu-v2020 (PAI) as it was published: `pai_task_table.csv`, with `pai_job_table.csv` beside it.

The published tables have no header line; their columns are in `*.header` files. A job is all its tasks together: every
instance of every task is one gang, from the first start to the last end. The job table, where it lies beside, gives the
user and the moment of submission; without it a job is submitted when its first task starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, Violation
from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.problems import LeftOut, Problems, Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Found, Row, Table, header_of, milli
from stoker.simulate.trace import Trace, TraceJob

TASKS, JOBS = "pai_task_table", "pai_job_table"
TASK_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
NO_MODEL = ("", "CPU")


@dataclass(frozen=True, slots=True)
class _Task:
    job: str
    name: str
    status: str
    start: float | None
    end: float | None
    gpus: float
    vcpus: float
    memory_gb: float
    model: str


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    user: str
    status: str
    start: float | None


class Pai:
    """`job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type`, with or without header."""

    columns = TASK_COLUMNS
    usual = TASKS

    def recognises(self, head: str, path: Path) -> bool:
        """By its header, or by its file's name and the number of its fields."""
        first = header_of(head)
        if path.suffix == ".header":  # the columns, which are published beside the tables
            return False
        named = path.name.startswith(TASKS) and len(first) == len(TASK_COLUMNS)
        named = named or (path.name.startswith(JOBS) and len(first) == len(JOB_COLUMNS))
        return named or set(TASK_COLUMNS) <= set(first)

    def read(self, source: Source) -> Trace:
        """Times are seconds from a moment that the trace does not tell."""
        if source.name.startswith(JOBS):
            tasks = source.sibling(TASKS)
            if tasks is None:
                what = f"says nothing of GPUs, and {TASKS}.csv does not lie beside it"
                raise BadSpec([Violation(source.name, what)], fix=f"put {TASKS}.csv into the same folder")
            source = tasks
        jobs = source.sibling(JOBS) if source.name.startswith(TASKS) else None
        known = {job.name: job for _, job in _table(jobs, JOB_COLUMNS).collect(_job_row).rows} if jobs else {}
        tasks_of: dict[str, list[tuple[int, _Task]]] = {}
        for line, task in _table(source, TASK_COLUMNS).collect(_task_row).rows:
            tasks_of.setdefault(task.job, []).append((line, task))
        found: list[tuple[int, TraceJob]] = []
        dropped: dict[str, int] = {}
        problems = Problems(source.name)
        for name, rows in tasks_of.items():
            line = rows[0][0]
            try:
                found.append((line, _together(name, [task for _, task in rows], known.get(name))))
            except LeftOut as left:
                dropped[left.why] = dropped.get(left.why, 0) + 1
            except Wrong as wrong:
                problems.add(line, wrong)
        problems.raise_them()
        return assemble(source, Found(found, dropped))


def _table(source: Source, columns: Sequence[str]) -> Table:
    headed = set(columns) <= set(header_of(source.text))
    return Table(source, columns, header=() if headed else columns)


def _moment(row: Row, column: str) -> float | None:
    return row.number(column, least=0) if row.text(column) else None


def _task_row(row: Row) -> _Task:
    instances = row.number("inst_num", least=0, otherwise=1)
    return _Task(
        job=row.name("job_name"),
        name=row.text("task_name"),
        status=row.text("status"),
        start=_moment(row, "start_time"),
        end=_moment(row, "end_time"),
        gpus=instances * row.number("plan_gpu", least=0, otherwise=0) / 100,
        vcpus=instances * row.number("plan_cpu", least=0, otherwise=0) / 100,
        memory_gb=instances * row.number("plan_mem", least=0, otherwise=0),
        model=row.text("gpu_type"),
    )


def _job_row(row: Row) -> _Job:
    return _Job(row.name("job_name"), row.text("user"), row.text("status"), _moment(row, "start_time"))


def _together(name: str, tasks: Sequence[_Task], job: _Job | None) -> TraceJob:
    """A job from its tasks, which start and end each at its own time."""
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        raise Wrong(f"job {name[:80]} has a task of one name twice")
    starts = [task.start for task in tasks if task.start is not None]
    ends = [task.end for task in tasks if task.end is not None]
    if not starts:
        raise LeftOut("never started")
    if len(ends) < len(tasks):
        raise LeftOut("has no end")
    start, end = min(starts), max(ends)
    if end < start:
        raise Wrong(f"end_time is {end:.10g}, before start_time {start:.10g}")
    if end == start:
        raise LeftOut("ran for 0 s")
    largest = max(tasks, key=lambda task: task.gpus)
    submitted_at = job.start if job and job.start is not None else start
    return TraceJob(
        name=name,
        submitted_at=min(submitted_at, start),
        run_seconds=end - start,
        gpus_milli=milli(sum(task.gpus for task in tasks)),
        accelerators=tuple(sorted({task.model for task in tasks if task.gpus and task.model not in NO_MODEL})),
        vcpus=sum(task.vcpus for task in tasks),
        memory_gb=sum(task.memory_gb for task in tasks),
        user=job.user if job else "",
        program=largest.name,
        outcome=job.status if job else largest.status,
    )
