"""The last step of every reader: from jobs to a trace in order, with unique names, and in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from stoker.core.errors import BadSpec, Violation
from stoker.simulate.reading.calendar import Calendar
from stoker.simulate.reading.problems import Problems, Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Found
from stoker.simulate.trace import Trace, TraceJob, TraceNode

DAY_SECONDS = 86_400.0
YEAR_SECONDS = 365.25 * DAY_SECONDS
LONGEST_MEDIAN_SECONDS = 1e7  # 116 days: the median of no cluster, but that of any in milliseconds
LONGEST_SPAN_SECONDS = 50 * YEAR_SECONDS
GAP_SECONDS = 30 * DAY_SECONDS
MOST_GAPS_TOLD = 5


def assemble(
    source: Source,
    found: Found[TraceJob],
    *,
    nodes: Sequence[TraceNode] = (),
    notes: Sequence[str] = (),
    calendar: Calendar | None = None,
    again: str = "",
) -> Trace:
    """The trace of a file. With a calendar, the first submission becomes its zero.

    `again` says what to do where a name comes twice.
    """
    rows = _numbers_of_one_width(found.rows)
    if not rows:
        left = "; ".join(f"{count} {why}" for why, count in found.dropped.items())
        raise BadSpec(
            [Violation(source.name, f"has no job to replay{f' ({left})' if left else ''}")],
            fix="name a file with jobs that ran",
        )
    _refuse_twins(source, rows, again)
    _refuse_other_units(source, [job for _, job in rows])
    zero = min(job.submitted_at for _, job in rows) if calendar else 0.0
    jobs = [replace(job, submitted_at=job.submitted_at - zero) if zero else job for _, job in rows]
    jobs.sort(key=lambda job: (job.submitted_at, job.name))
    return Trace(
        name=source.stem,
        jobs=tuple(jobs),
        nodes=tuple(nodes),
        dropped=dict(found.dropped),
        notes=(*notes, *_gaps(jobs)),
        source=source.name,
        time_zero=calendar.text(zero) if calendar else "",
    )


def _numbers_of_one_width(rows: Sequence[tuple[int, TraceJob]]) -> Sequence[tuple[int, TraceJob]]:
    """Names that are plain numbers get zeros in front, so that 2 comes before 10 among jobs of one moment."""
    widths = {len(job.name) for _, job in rows if job.name.isascii() and job.name.isdecimal()}
    if len(widths) < 2 or not all(job.name.isascii() and job.name.isdecimal() for _, job in rows):
        return rows
    return [(line, replace(job, name=job.name.zfill(max(widths)))) for line, job in rows]


def _refuse_twins(source: Source, rows: Sequence[tuple[int, TraceJob]], again: str) -> None:
    first: dict[str, int] = {}
    problems = Problems(source.name)
    for line, job in rows:
        if first.setdefault(job.name, line) != line:
            problems.add(line, Wrong(f"job {job.name[:80]} stands already in line {first[job.name]}", again))
    problems.raise_them()


def _refuse_other_units(source: Source, jobs: Sequence[TraceJob]) -> None:
    """Milliseconds taken for seconds would replay without a word, and every figure would be wrong."""
    middle = median(job.run_seconds for job in jobs)
    submitted = [job.submitted_at for job in jobs]
    span = max(submitted) - min(submitted)
    longest = max(jobs, key=lambda job: job.run_seconds)
    wrong = []
    if longest.run_seconds > LONGEST_SPAN_SECONDS:
        wrong.append(f"job {longest.name[:80]} ran for {longest.run_seconds / YEAR_SECONDS:,.0f} years")
    if middle > LONGEST_MEDIAN_SECONDS:
        wrong.append(f"half of the jobs ran for more than {middle / DAY_SECONDS:,.0f} days")
    if span > LONGEST_SPAN_SECONDS:
        wrong.append(f"the submissions span {span / YEAR_SECONDS:,.0f} years")
    if wrong:
        raise BadSpec(
            [Violation(source.name, f"{what}: its times are not seconds") for what in wrong],
            fix="if its times are milliseconds, divide them by 1000",
        )


def _gaps(jobs: Sequence[TraceJob]) -> list[str]:
    found = [
        f"no submission for {(after.submitted_at - before.submitted_at) / DAY_SECONDS:.0f} days "
        f"from day {before.submitted_at / DAY_SECONDS:.0f} on"
        for before, after in pairwise(jobs)
        if after.submitted_at - before.submitted_at > GAP_SECONDS
    ]
    return [
        *found[:MOST_GAPS_TOLD],
        *([f"and {len(found) - MOST_GAPS_TOLD} gaps more"] if found[MOST_GAPS_TOLD:] else []),
    ]
