"""Muri-compat mode: the peer's simulator over again, to its published digits.

Muri (SIGCOMM'22) published average JCT, makespan and p99 JCT of SRTF, SRSF and Tiresias-L on virtual clusters of Philly.
Its simulator has quirks that move these figures by several percent, so nobody's policy may be compared with the table
before a replay with the same quirks gives the same table. This is that replay; the rules are in `muri_rules.py`. It shares
nothing with our own simulator, whose rules differ: there a restart costs only who restarts.

What the source does, by `simulator/run_sim.py`, `jobs.py` and `cluster_exp/calc.py` of Rivendile/Muri:

- Time goes from event to event: submissions, the next end, and for Tiresias-L the next change of queue.
- An iteration takes 1.015 of what the trace says; the trace's `duration` is not used.
- Submissions within 1e-9 of each other, relatively, are one event at the time of the first.
- At each event who ended leaves, who was submitted joins, every running job is charged a restart, and all gangs are
  placed anew; moves are free.
- JCT is end less submission, makespan the latest end counted from 0, p99 the sorted JCT at index `int(0.99 n)`.

Not reproduced: when an end falls exactly on a submission and a change of queue of 2D-LAS just before it, the source keeps
the stale end with the submission and ends that job early. It happens in none of the published traces.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, Violation

from .muri_rules import LINES, SAME_INSTANT, Instant, Line, Work, restart_seconds

SLOWDOWN = 1.015
"""What Muri's own runtime costs a job, for every policy alike (`itertime_overhead_list[0]`)."""

GZIP_MAGIC = b"\x1f\x8b"
LEAST_VALUES: Mapping[str, int] = {"num_gpu": 1, "submit_time": 0, "iterations": 1, "iteration_time": 1}
"""The columns that are numbers, all whole, with the least that makes sense."""
WHOLE_NUMBER = re.compile("[0-9]{1,15}")
COLUMNS = ("job_id", "model_name", *LEAST_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MuriJob:
    """One row of a Muri trace."""

    id: str
    model_name: str
    gpus: int
    submitted_at_seconds: float
    iterations: int
    iteration_milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MuriCompletion:
    """When one job came and ended."""

    job_id: str
    submitted_at_seconds: float
    ended_at_seconds: float

    @property
    def jct_seconds(self) -> float:
        """Job completion time: from submission to the end."""
        return self.ended_at_seconds - self.submitted_at_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MuriResult:
    """What a replay found, with the figures as `calc.py` of the source computes them."""

    completions: tuple[MuriCompletion, ...]  # in order of their ends

    @property
    def avg_jct_seconds(self) -> float:
        """The mean job completion time."""
        return sum(done.jct_seconds for done in self.completions) / len(self.completions)

    @property
    def makespan_seconds(self) -> float:
        """The latest end, counted from 0 and not from the first submission."""
        return max(done.ended_at_seconds for done in self.completions)

    @property
    def p99_jct_seconds(self) -> float:
        """The job completion time at index int(0.99 n) of the sorted ones."""
        return sorted(done.jct_seconds for done in self.completions)[int(len(self.completions) * 0.99)]


def replay(jobs: Sequence[MuriJob], *, policy: str, nodes: int = 8, gpus_per_node: int = 8) -> MuriResult:
    """Run the jobs through `policy` (srtf, srsf or tiresias-l) as the Muri simulator would."""
    _refuse(jobs, policy, nodes, gpus_per_node)
    submitted = sorted(jobs, key=lambda job: job.submitted_at_seconds)
    return MuriResult(
        completions=tuple(
            MuriCompletion(
                job_id=submitted[index].id,
                submitted_at_seconds=submitted[index].submitted_at_seconds,
                ended_at_seconds=ended_at_seconds,
            )
            for index, ended_at_seconds in _ends(submitted, LINES[policy](nodes, gpus_per_node))
        )
    )


def _refuse(jobs: Sequence[MuriJob], policy: str, nodes: int, gpus_per_node: int) -> None:
    """Raise for what could not be run to its end. The source would wait for ever for a gang that is too large."""
    wrong: list[Violation] = []
    if policy not in LINES:
        wrong.append(Violation("policy", f"{policy!r} is none of {', '.join(LINES)}"))
    if nodes < 1 or gpus_per_node < 1:
        wrong.append(
            Violation("nodes", f"{nodes} nodes of {gpus_per_node} GPUs are no cluster; each must be 1 or more")
        )
    if not jobs:
        wrong.append(Violation("jobs", "there are none, so there is nothing to measure"))
    for job in jobs:
        if not 1 <= job.gpus <= nodes * gpus_per_node:
            wrong.append(Violation(f"jobs.{job.id}.gpus", f"{job.gpus} asked, the cluster has {nodes * gpus_per_node}"))
        if job.iterations < 1 or not 0 < job.iteration_milliseconds < math.inf:
            wrong.append(Violation(f"jobs.{job.id}.iterations", "iterations and their time must be greater than 0"))
        if not 0 <= job.submitted_at_seconds < math.inf:
            wrong.append(Violation(f"jobs.{job.id}.submitted_at_seconds", "must be 0 or more, and finite"))
    if wrong:
        raise BadSpec(wrong)


def _ends(submitted: Sequence[MuriJob], line: Line) -> Iterator[tuple[int, float]]:
    """The index of each job and when it ended, in order of their ends."""
    arrivals = deque(_arrivals(submitted))
    running: list[Work] = []
    end, turn = Instant(at_seconds=math.inf, works=()), math.inf
    while arrivals or running:
        # 1. On to the next event.
        arrival = arrivals[0].at_seconds if arrivals else math.inf
        now = min(arrival, end.at_seconds, turn)
        # 2. Who ends, leaves.
        if end.at_seconds == now:
            for work in end.works:
                yield work.index, now
                running.remove(work)
                line.leave(work)
        # 3. Who is submitted, joins.
        if arrival == now:
            for work in arrivals.popleft().works:
                line.join(work)
        # 4. Who still runs, pays.
        for work in running:
            work.charge(now)
        # 5. Who runs from here on.
        running = line.choose(running)
        for work in running:
            work.checked_at_seconds = now
        # 6. What is next, if nobody comes.
        end, turn = line.next_end(running, now), line.next_turn(running, now)


def _arrivals(submitted: Sequence[MuriJob]) -> Iterator[Instant]:
    """The jobs by the instant at which they join, which is when the first of them was submitted."""
    at_seconds, together = -math.inf, list[Work]()
    for index, job in enumerate(submitted):
        if together and not math.isclose(at_seconds, job.submitted_at_seconds, rel_tol=SAME_INSTANT):
            yield Instant(at_seconds=at_seconds, works=together)
            together = []
        if not together:
            at_seconds = job.submitted_at_seconds
        together.append(
            Work(
                index=index,
                gpus=job.gpus,
                iteration_seconds=job.iteration_milliseconds * SLOWDOWN / 1000,  # rounded in this order
                restart_seconds=restart_seconds(job.model_name, job.gpus),
                remaining_iterations=float(job.iterations),
            )
        )
    yield Instant(at_seconds=at_seconds, works=together)


def read_muri(path: str | Path) -> list[MuriJob]:
    """The jobs of a Muri trace, a CSV file or a gzip of one, in the file's order. Times in it are milliseconds."""
    rows = csv.DictReader(io.StringIO(_text(Path(path)), newline=""))
    try:
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            raise BadSpec([Violation(f"{path}:1", f"no column {', '.join(missing)}; is this a Muri trace?")])
        jobs = [_job(row, f"{path}:{rows.line_num}") for row in rows]
    except csv.Error as error:
        raise BadSpec([Violation(f"{path}:{rows.line_num + 1}", str(error))]) from error
    if not jobs:
        raise BadSpec([Violation(f"{path}:1", "columns, but no jobs")])
    return jobs


def _text(path: Path) -> str:
    """What a file says, unpacked where it is packed."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadSpec([Violation(str(path), f"cannot be read as CSV or gzip: {error}")]) from error


def _job(row: Mapping[str, str | None], where: str) -> MuriJob:
    """The job of a row that was found at `where`."""
    texts = {column: row[column] or "" for column in COLUMNS}
    wrong = [
        Violation(
            where, f"{column}: {texts[column]!r} is not a whole number of {least} or more, and of 15 digits at most"
        )
        for column, least in LEAST_VALUES.items()
        if not WHOLE_NUMBER.fullmatch(texts[column]) or int(texts[column]) < least
    ]
    if wrong:
        raise BadSpec(wrong)
    return MuriJob(
        id=texts["job_id"],
        model_name=texts["model_name"],
        gpus=int(texts["num_gpu"]),
        submitted_at_seconds=int(texts["submit_time"]) / 1000,
        iterations=int(texts["iterations"]),
        iteration_milliseconds=int(texts["iteration_time"]),
    )
