"""Microsoft Philly as it was published: `cluster_job_log`, a list of jobs with every attempt and the GPUs that it had.

A job's run time is that of all its attempts together, its gang the largest of them. What lies between attempts was
waiting, and is the replay's to decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.core.errors import BadSpec, Violation
from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.calendar import Calendar
from stoker.simulate.reading.problems import LeftOut, Problems, Wrong
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import MISSING, Found, milli
from stoker.simulate.trace import Trace, TraceJob

SET_BACK_SECONDS = 3600.0  # an attempt over the night when clocks are set back may end before it starts
KEYS = ("jobid", "attempts", "submitted_time")


class PhillyLog:
    """A JSON list of `{status, vc, jobid, attempts, submitted_time, user}`."""

    columns: tuple[str, ...] = ()
    usual = "cluster_job_log"

    def recognises(self, head: str, path: Path) -> bool:
        """By its keys."""
        return head.lstrip().startswith("[") and all(f'"{key}"' in head for key in KEYS)

    def read(self, source: Source) -> Trace:
        """Times of day are a wall clock without a zone."""
        entries = _entries(source)
        calendar = Calendar()
        problems = Problems(source.name)
        found: list[tuple[int, TraceJob]] = []
        dropped: dict[str, int] = {}
        for place, entry in enumerate(entries):
            try:
                found.append((place, _job(entry, calendar)))
            except LeftOut as left:
                dropped[left.why] = dropped.get(left.why, 0) + 1
            except Wrong as wrong:
                problems.add(f"[{place}]", wrong)
        problems.raise_them()
        return assemble(source, Found(found, dropped), calendar=calendar)


def _entries(source: Source) -> list[Any]:
    try:
        entries = json.loads(source.text)
    except json.JSONDecodeError as error:
        where = Violation(f"{source.name}:{error.lineno}", f"is no JSON: {error.msg}")
        raise BadSpec([where], fix="download the file again") from None
    except (RecursionError, ValueError) as error:
        raise BadSpec([Violation(source.name, f"is not a job log: {error}")], fix="download the file again") from None
    if not isinstance(entries, list):
        raise BadSpec([Violation(source.name, "is not a list of jobs")], fix="name the file cluster_job_log")
    return entries


def _job(entry: object, calendar: Calendar) -> TraceJob:
    log = _mapping(entry, "the job")
    name = _text(log, "jobid")
    if not name:
        raise Wrong("jobid is missing or empty")
    submitted_at = calendar.seconds("submitted_time", _text(log, "submitted_time"))
    attempts = log.get("attempts")
    if not isinstance(attempts, list):
        raise Wrong("attempts is not a list")
    run_seconds, gpus, nodes = 0.0, 0, 0
    for attempt in attempts:
        run_seconds += _ran(_mapping(attempt, "an attempt"), calendar)
        machines = _machines(attempt)
        if sum(machines) > gpus:
            gpus, nodes = sum(machines), len(machines)
    if attempts and not _text(attempts[-1], "end_time"):
        raise LeftOut("still ran when the log was taken, or has no end")
    if run_seconds <= 0:
        raise LeftOut("never ran")
    if not gpus:
        raise LeftOut("had no GPU")
    return TraceJob(
        name=name,
        submitted_at=submitted_at,
        run_seconds=run_seconds,
        gpus_milli=milli(gpus),
        user=_text(log, "user"),
        queue=_text(log, "vc"),
        outcome=_text(log, "status"),
        nodes=nodes,
    )


def _ran(attempt: Mapping[str, Any], calendar: Calendar) -> float:
    start, end = _text(attempt, "start_time"), _text(attempt, "end_time")
    if not start or not end:
        return 0.0
    seconds = calendar.seconds("end_time", end) - calendar.seconds("start_time", start)
    if seconds < -SET_BACK_SECONDS:
        raise Wrong(f"an attempt ends at {end}, before its start at {start}")
    return max(0.0, seconds)


def _machines(attempt: Mapping[str, Any]) -> list[int]:
    """How many GPUs an attempt had on each machine."""
    detail = attempt.get("detail") or []
    if not isinstance(detail, list):
        raise Wrong("detail is not a list")
    found = []
    for machine in detail:
        gpus = _mapping(machine, "a machine").get("gpus") or []
        if not isinstance(gpus, list):
            raise Wrong("gpus is not a list")
        found.append(len(gpus))
    return [gpus for gpus in found if gpus]


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Wrong(f"{what} is {type(value).__name__}, not an object")
    return value


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise Wrong(f"{key} is {type(value).__name__}, not a text")
    text = "" if value is None else str(value).strip()
    return "" if text in MISSING else text
