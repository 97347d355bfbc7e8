"""A trace: jobs as a cluster once saw them, or as somebody drew them, and the nodes it had.

All times are seconds from the trace's own zero, GPUs are milli-GPU of the whole gang (8 GPUs = 8000, half of one = 500).
`read_trace` reads a file of any known format; the formats are the open set "traces" of registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Protocol

from stoker.core.errors import BadSpec, Violation
from stoker.registry import load, names
from stoker.simulate.reading.source import Source, files_in, head_of, read_source

OUTSIDE = "submitted outside the window"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job: what it asked for, when, and how long it ran once it had it."""

    name: str  # unique in the trace
    submitted_at: float  # seconds from the trace's zero
    run_seconds: float  # without waiting; above 0
    gpus_milli: int  # of the whole gang; below 1000 a share of one device, 0 = CPU only
    accelerators: tuple[str, ...] = ()  # models it accepts; empty: any
    vcpus: float = 0.0  # of the whole gang; 0: unknown
    memory_gb: float = 0.0  # of the whole gang; 0: unknown
    user: str = ""
    queue: str = ""  # virtual cluster, partition, organisation
    program: str = ""  # what recurs: a model, or the stem of a job's name
    priority: int = 0
    deadline_seconds: float | None = None  # after submission
    outcome: str = ""  # as the trace says it: COMPLETED, FAILED, …
    nodes: int = 0  # how many nodes it is known to have had; 0: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """Some equal nodes, or one with a name."""

    count: int = 1
    gpus: int
    accelerator: str = ""
    vcpus: float = 0.0
    memory_gb: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in the order of their submission, and what is to be known of where they come from."""

    name: str
    jobs: tuple[TraceJob, ...]  # by (submitted_at, name)
    nodes: tuple[TraceNode, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)  # why rows were left out, and how many
    notes: tuple[str, ...] = ()  # what a reader of results should know
    source: str = ""  # the file
    time_zero: str = ""  # the moment that is 0, as the trace says it; empty: it counts seconds itself

    def window(self, start_seconds: float, end_seconds: float) -> Trace:
        """The jobs that were submitted from `start_seconds` to before `end_seconds`, with the start as the new zero."""
        kept = tuple(
            replace(job, submitted_at=job.submitted_at - start_seconds)
            for job in self.jobs
            if start_seconds <= job.submitted_at < end_seconds
        )
        zero = self._zero()
        moved = zero + timedelta(seconds=start_seconds) if zero else None
        outside = self.dropped.get(OUTSIDE, 0) + len(self.jobs) - len(kept)
        return replace(
            self,
            jobs=kept,
            dropped={**self.dropped, **({OUTSIDE: outside} if outside else {})},
            time_zero=moved.isoformat(sep=" ") if moved else f"{start_seconds:g} s of {self.name}",
        )

    def days(self, first: date, last: date) -> Trace:
        """The jobs of some days by the trace's own calendar, both days whole."""
        zero = self._zero()
        if zero is None:
            raise BadSpec(
                [Violation(self.source or self.name, "counts seconds and says no date, so it has no days")],
                fix="give the window in seconds from the trace's zero",
            )

        def seconds(day: date) -> float:
            return (datetime(day.year, day.month, day.day, tzinfo=zero.tzinfo) - zero).total_seconds()

        return self.window(seconds(first), seconds(last + timedelta(days=1)))

    def _zero(self) -> datetime | None:
        try:
            return datetime.fromisoformat(self.time_zero)
        except ValueError:
            return None


class Reader(Protocol):
    """A format of traces: knows its files, and reads them."""

    columns: Sequence[str]  # those without which it is not this format; empty where it has none
    usual: str  # the beginning of the name of the file to take where a folder holds several

    def recognises(self, head: str, path: Path) -> bool: ...  # head: the beginning of the text

    def read(self, source: Source) -> Trace: ...


def read_trace(path: Path | str, format: str = "") -> Trace:
    """The trace of a file, or of a folder with one; its format is named, or recognised from how the file begins.

    Gzip or plain. Raises BadSpec with every problem of the file, NotFound for a file or a format that is not there.
    """
    path = Path(path)
    readers: dict[str, Reader] = {name: load("traces", name)() for name in ([format] if format else names("traces"))}
    if path.is_dir():
        path = _file_of(path, readers)
    if format:
        return readers[format].read(read_source(path))
    head = head_of(path)
    for reader in readers.values():
        if reader.recognises(head, path):
            return reader.read(read_source(path))
    raise _unknown(path, head, readers)


def _file_of(folder: Path, readers: Mapping[str, Reader]) -> Path:
    """The file of a folder that holds the jobs."""
    found: list[tuple[Path, Reader]] = []
    unreadable: list[Violation] = []
    for path in files_in(folder):
        try:
            head = head_of(path)
        except BadSpec as error:
            unreadable += error.violations
            continue
        found += [(path, reader) for reader in readers.values() if reader.recognises(head, path)][:1]
    usual = [path for path, reader in found if reader.usual and path.name.startswith(reader.usual)]
    if len(usual) == 1 or (not usual and len(found) == 1):
        return usual[0] if usual else found[0][0]
    if found:
        some = ", ".join(path.name for path, _ in found[:8]) + (", …" if len(found) > 8 else "")
        raise BadSpec([Violation(str(folder), f"holds {len(found)} traces: {some}")], fix="name one of the files")
    raise BadSpec(
        [Violation(str(folder), f"no file in it is a trace of {', '.join(readers)}"), *unreadable],
        fix="name the file and its format",
    )


def _unknown(path: Path, head: str, readers: Mapping[str, Reader]) -> BadSpec:
    """What is said of a file that no reader knows: what it has, and what the nearest format has that it lacks."""
    first = head.splitlines()[0][:400] if head.strip() else ""
    fields = {part.strip().strip('"') for mark in ",|\t" for part in first.split(mark)}
    near = max(readers, key=lambda name: len(fields & set(readers[name].columns)) / (len(readers[name].columns) or 1))
    lacks = [column for column in readers[near].columns if column not in fields]
    problem = f"not a trace of a known format; it begins with {first!r}"
    if lacks and len(lacks) < len(readers[near].columns):
        problem += f"; nearest is {near}, which also needs {', '.join(lacks)}"
    return BadSpec([Violation(f"{path.name}:1", problem)], fix=f"name its format: one of {', '.join(readers)}")
