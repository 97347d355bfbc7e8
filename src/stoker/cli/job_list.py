"""Lists of jobs: which ones (gcloud's filters, and flags for the usual ones), in which order, in how many columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from stoker.core.errors import BadSpec, Violation
from stoker.core.states import ShownState

from . import show
from .job_flags import read_duration
from .outlook import clock

Row = Mapping[str, Any]

COLUMNS = ("JOB_ID", "STATUS", "USER", "QUEUE", "REPLICAS", "GPUS", "SUBMITTED", "DURATION", "REASON")
LEFT_OUT = ("REASON", "REPLICAS", "QUEUE", "USER", "GPUS", "DURATION")
"""The columns that a narrow terminal can do without, the first to go first."""

_TIMES = {"createTime": "submitted_at", "startTime": "started_at", "endTime": "ended_at"}
_SORTED_BY = ("jobId", "state", "user", "queue", "replicas", "accelerators", *_TIMES)


def filter_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that say which jobs, and in which order."""
    flags = [
        click.option(
            "--filter", "filter_text", default="", help="gcloud's language: state=FAILED AND labels.team=vision."
        ),
        click.option("--state", "states", multiple=True, help="Only jobs in this state; repeatable, or with commas."),
        click.option("--label", "labels", multiple=True, metavar="KEY[=VALUE]", help="Only jobs with it; repeatable."),
        click.option("--user", help="Only this user's."),
        click.option("--queue", help="Only of this queue."),
        click.option(
            "--since", metavar="TIME", callback=read_duration, help="Only what was submitted within 90s, 30m, 12h, 7d."
        ),
        click.option(
            "--sort-by", metavar="FIELD", help="jobId, state, user, queue, createTime, …; ~FIELD the other way."
        ),
    ]
    for add in reversed(flags):
        function = add(function)
    return function


def filter_of(
    filter_text: str,
    *,
    states: Sequence[str] = (),
    labels: Sequence[str] = (),
    user: str | None = None,
    queue: str | None = None,
    since: float | None = None,
    now: float,
) -> str:
    """One filter of them all. Raises BadSpec for a state that there is not."""
    parts = [f"({filter_text})"] if filter_text.strip() else []
    named = [state.strip().upper() for text in states for state in text.split(",") if state.strip()]
    unknown = [name for name in named if name not in set(ShownState)]
    if unknown:
        raise BadSpec([Violation("--state", f"{unknown[0]} is not a state; there are {', '.join(ShownState)}")])
    if named:
        parts.append(f"({' OR '.join(f'state={name}' for name in named)})")
    for label in labels:
        key, has_value, value = label.partition("=")
        parts.append(f"labels.{key}={_quoted(value)}" if has_value else f"labels:{key}")
    parts += [f"{field}={_quoted(value)}" for field, value in (("user", user), ("queue", queue)) if value]
    if since:
        parts.append(f'createTime>="{_moment(max(0.0, now - since))}"')
    return " AND ".join(parts)


def in_order(jobs: Sequence[Row], by: str | None) -> list[Row]:
    """Sorted by a field; what does not have it comes last. Raises BadSpec for a field that there is not."""
    if not by:
        return list(jobs)
    field, is_reversed = by.removeprefix("~"), by.startswith("~")
    if field not in _SORTED_BY:
        raise BadSpec([Violation("--sort-by", f"{field[:80]!r} is no field; there are {', '.join(_SORTED_BY)}")])
    name = {"jobId": "name", "user": "owner", **_TIMES}.get(field, field)
    known = [job for job in jobs if job[name] is not None]
    return [*sorted(known, key=lambda job: job[name], reverse=is_reversed), *(j for j in jobs if j[name] is None)]


def as_data(job: Row) -> dict[str, Any]:
    """A job of a list for programs: gcloud's names beside Stoker's own."""
    times = {name: _moment(job[field]) for name, field in _TIMES.items() if job[field] is not None}
    return {"jobId": job["name"], **times, **job}


def show_jobs(jobs: Sequence[Row]) -> None:
    """A table, as wide as the terminal."""
    now = time.time()
    rows = [
        [
            job["name"],
            show.state(job["state"]),
            job["owner"],
            job["queue"] + (" (preemptible)" if job["preemptible"] else ""),
            job["replicas"],
            job["accelerators"],
            show.ago(job["submitted_at"]),
            show.duration((job["ended_at"] or now) - job["started_at"]) if job["started_at"] else "",
            _reason(job, now),
        ]
        for job in jobs
    ]
    show.table(COLUMNS, rows, leave_out=LEFT_OUT)


def _reason(job: Row, now: float) -> str:
    """The first part of the sentence that says why."""
    if job.get("held_until"):
        return f"failed, and is held until {clock(job['held_until'], now)}: stoker jobs shell {job['name']}"
    reason = job["reason"]["text"] if job.get("reason") else job["message"]
    return str(reason).splitlines()[0].partition("; ")[0] if reason else ""


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
