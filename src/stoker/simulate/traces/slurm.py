"""What `sacct --parsable2` prints: a cluster's own history, so that anyone can replay theirs.

    sacct --allusers --parsable2 --starttime 2025-01-01 --endtime 2025-03-01 --format \
      JobID,JobName,User,Account,Partition,State,Submit,Start,End,Elapsed,ReqTRES,AllocTRES,NCPUS,NNodes,Priority

Steps are no jobs; an element of an array is one; the parts of a heterogeneous job are taken one by one. GPUs are those of
AllocTRES, models those that ReqTRES asks for. A slice of a GPU (MIG) counts as a whole device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.calendar import Calendar
from stoker.simulate.reading.problems import LeftOut, Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, has_columns, milli
from stoker.simulate.trace import Trace, TraceJob

BAR = "|"
NEEDED = ("JobID", "State", "Submit", "Start")
SECONDS_IN_DAY, SECONDS_IN_HOUR, SECONDS_IN_MINUTE = 86_400, 3_600, 60
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?")
GB_OF = {"K": 1 / 1024**2, "M": 1 / 1024, "": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}  # bare numbers are MB
GPU = "gres/gpu"
NEVER_RAN = ("PENDING", "CANCELLED")
NUMBER_AT_THE_END = re.compile(r"[-_.]?\d+$")


class Slurm:
    """`JobID|…|State|Submit|Start|End|Elapsed|ReqTRES|AllocTRES|…`, in any order, with more or fewer."""

    columns = NEEDED
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By its header."""
        return has_columns(head, NEEDED, BAR)

    def read(self, source: Source) -> Trace:
        """Times are a wall clock, or seconds since 1970 where SLURM_TIME_FORMAT=%s."""
        table = Table(source, NEEDED, separator=BAR)
        calendar = Calendar()
        resources = [column for column in ("AllocTRES", "ReqTRES") if table.has(column)]
        table.need(*(() if resources else ("AllocTRES",)), *(() if table.has("Elapsed") else ("End",)))

        def job(row: Row) -> TraceJob:
            name = row.name("JobID")
            if "." in name:
                raise LeftOut("a step of a job")
            submitted_at = _moment(row, "Submit", calendar)
            if submitted_at is None:
                raise Wrong("Submit is empty")
            run_seconds = _ran(row, calendar)
            had = [_resources(row.text(column)) for column in resources]
            first = next((found for found in had if found), {})
            asked = _resources(row.text("ReqTRES")) if table.has("ReqTRES") else first
            return TraceJob(
                name=name,
                submitted_at=submitted_at,
                run_seconds=run_seconds,
                gpus_milli=_gpus_milli(first),
                accelerators=tuple(sorted(key.partition(":")[2] for key in asked if key.startswith(f"{GPU}:"))),
                vcpus=_number(first, "cpu") or row.number("NCPUS", least=0, otherwise=0),
                memory_gb=_memory_gb(first),
                user=row.text("User"),
                queue=row.text("Partition"),
                program=NUMBER_AT_THE_END.sub("", row.text("JobName")),
                priority=row.count("Priority", otherwise=0),
                outcome=row.text("State").partition(" ")[0],
                nodes=row.count("NNodes", otherwise=0),
            )

        return assemble(
            source,
            table.collect(job),
            calendar=calendar,
            again="run sacct without --duplicates, or keep one of the rows",
        )


def _moment(row: Row, column: str, calendar: Calendar) -> float | None:
    text = row.text(column)
    if not text:
        return None
    return float(text) if text.isdecimal() and len(text) > len("20171002") else calendar.seconds(column, text)


def _ran(row: Row, calendar: Calendar) -> float:
    """Elapsed, which leaves suspensions out; or from start to end."""
    state = row.text("State").partition(" ")[0]
    start, end = _moment(row, "Start", calendar), _moment(row, "End", calendar)
    if start is None:
        raise LeftOut("cancelled before it started" if state == "CANCELLED" else "never started")
    if state in ("RUNNING", "SUSPENDED") or (end is None and not row.text("Elapsed")):
        raise LeftOut("still running")
    if end is not None and end < start:
        raise Wrong(f"End is {row.text('End')}, before Start {row.text('Start')}")
    seconds = _elapsed(row.text("Elapsed")) if row.text("Elapsed") else (end or start) - start
    if not seconds:
        raise LeftOut("cancelled before it started" if state in NEVER_RAN else "ran for 0 s")
    return seconds


def _elapsed(text: str) -> float:
    """`1-02:03:04`, `02:03:04` or `03:04`."""
    found = ELAPSED.fullmatch(text)
    if not found:
        raise Wrong(f"Elapsed is {text[:40]!r}, not [days-]hours:minutes:seconds")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return days * SECONDS_IN_DAY + hours * SECONDS_IN_HOUR + minutes * SECONDS_IN_MINUTE + seconds


def _resources(text: str) -> Mapping[str, str]:
    """`cpu=8,gres/gpu:a100=2,mem=64G` as a table."""
    if not text:
        return {}
    pairs = [part.rpartition("=")[::2] for part in text.split(",")]
    if not all(key and value for key, value in pairs):
        raise Wrong(f"{text[:80]!r} is not a list of resources such as cpu=8,gres/gpu=2,mem=64G")
    return dict(pairs)


def _number(resources: Mapping[str, str], key: str) -> float:
    text = resources.get(key, "0")
    if not text.replace(".", "", 1).isdecimal():
        raise Wrong(f"{key} is {text[:40]!r}, not a number")
    return float(text)


def _gpus_milli(resources: Mapping[str, str]) -> int:
    """All GPUs, or where only models are told, those together."""
    if GPU in resources:
        return milli(_number(resources, GPU))
    return milli(sum(_number(resources, key) for key in resources if key.startswith(f"{GPU}:")))


def _memory_gb(resources: Mapping[str, str]) -> float:
    text = resources.get("mem", "0")
    found = MEMORY.fullmatch(text)
    if not found:
        raise Wrong(f"mem is {text[:40]!r}, not a size such as 64G")
    return float(found[1]) * GB_OF[found[2]]
