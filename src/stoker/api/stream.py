"""What happens to a job, as it happens: its story, its lines, and its end, as one stream of JSON lines.

{"kind": "state", "state": "RUNNING", "reason": …}     what a user sees has changed
{"kind": "log", "replica": "worker-0", "time": …, "stream": "out", "text": …, "offset": …}
{"kind": "end", "state": "SUCCEEDED", "exit_code": 0, "message": "", "started_at": …, "ended_at": …}

An empty line now and then shows that the server is still there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from stoker.core.errors import StokerError
from stoker.core.ids import replica_name, split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.states import FINAL_JOB_STATES, JobState, ReplicaState, shown_state
from stoker.store.base import Listed

from .bell import wait
from .services import Services

_LINES_AT_ONCE = 1000
KEEP_ALIVE_SECONDS = 15.0


async def follow(site: Services, job: str, *, logs: bool, offset: int, to_end: bool) -> AsyncIterator[str]:
    """Tell what there is, and with `to_end` go on until the job has ended. The caller has checked that it exists."""
    shown: dict[str, Any] = {}
    while True:
        ring = site.bell.next()
        listed = await run_in_threadpool(site.store.job, job)
        now = state_event(listed)
        if now != shown:
            shown = now
            yield _line(now)
        while logs:
            events = await run_in_threadpool(_log_events, site, job, offset)
            if not events:
                break
            offset = events[-1]["offset"]
            yield "".join(map(_line, events))
        if listed.job.state in FINAL_JOB_STATES:
            yield _line(end_event(listed.job, listed.attempt))
            return
        if not to_end or site.bell.closed:
            return
        if not await wait(ring, KEEP_ALIVE_SECONDS):
            yield "\n"


def state_event(listed: Listed) -> dict[str, Any]:
    """What a user sees of a job now, and why it waits if it does."""
    job, attempt = listed.job, listed.attempt
    event: dict[str, Any] = {
        "kind": "state",
        "state": str(shown(listed)),
        "attempt": job.tries,
        "replicas": job.spec.replicas,
    }
    if job.waits is not None:
        event["reason"] = {"code": job.waits.code, "text": job.waits.text, "action": job.waits.action}
    if job.state is JobState.QUEUED and job.message:
        event["message"] = job.message
    if attempt is not None and job.state is JobState.ACTIVE:
        event["up"] = sum(r.seen in (ReplicaState.UP, ReplicaState.SUCCEEDED) for r in attempt.replicas)
    return event


def end_event(job: Job, attempt: Attempt | None) -> dict[str, Any]:
    """How a job has ended; the exit code is the one that a shell should end with."""
    code = 0 if job.state is JobState.SUCCEEDED else 1
    if job.state is JobState.FAILED and attempt is not None:
        failed = [r for r in attempt.replicas if r.seen is ReplicaState.FAILED and r.exit_code]
        first = min(failed, key=lambda r: r.at, default=None)
        code = first.exit_code if first is not None and first.exit_code else 1
    return {
        "kind": "end",
        "state": str(job.state),
        "exit_code": code,
        "message": job.message,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
    }


def shown(listed: Listed) -> str:
    """The state that a user sees."""
    attempt = listed.attempt
    state, cause = (attempt.state, attempt.cause) if attempt else (None, None)
    return str(shown_state(listed.job.state, listed.job.wish, state, cause))


def describe(site: Services, listed: Listed, attempts: list[Attempt]) -> dict[str, Any]:
    """A job in Stoker's own words, in full. `job_dir_path`: where programs, and users of this machine, find its files."""
    job = listed.job
    project, name = split_job_id(job.id)
    return {
        "id": job.id,
        "project": project,
        "name": name,
        "owner": job.owner,
        "labels": dict(job.labels),
        "priority": job.spec.priority,
        "job_dir": job.spec.job_dir,
        "job_dir_path": _path(site, job.spec.job_dir),
        "rehearsal": job.spec.pool != "",
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        **{k: v for k, v in state_event(listed).items() if k != "kind"},
        "message": job.message,
        "machines": [
            {
                "role": group.role,
                "count": group.count,
                "machine_type": group.machine.type,
                "vcpus": group.machine.vcpus,
                "memory_gb": group.machine.memory_gb,
                "accelerator": group.machine.accelerator,
                "accelerators": group.machine.accelerators,
            }
            for group in job.spec.groups
        ],
        "attempts": [_attempt(attempt) for attempt in attempts],
    }


def _path(site: Services, uri: str) -> str:
    """Where a job's files are; empty if that cannot be told (its bucket is mapped to another place by now)."""
    try:
        return site.files.program_path(uri) if uri else ""
    except StokerError:
        return ""


def _attempt(attempt: Attempt) -> dict[str, Any]:
    places = {(p.role, p.index): p for p in attempt.placements}
    return {
        "id": attempt.id,
        "number": attempt.number,
        "state": str(attempt.state),
        "cause": str(attempt.cause) if attempt.cause else "",
        "detail": attempt.detail,
        "placed_at": attempt.placed_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "replicas": [
            {
                "name": replica_name(r.role, r.index),
                "state": str(r.seen),
                "exit_code": r.exit_code,
                "node": places[r.role, r.index].node,
                "devices": list(places[r.role, r.index].devices),
                "address": r.addresses[0] if r.addresses else "",
                "message": r.message,
            }
            for r in attempt.replicas
        ],
    }


def _log_events(site: Services, job: str, offset: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for line in site.logs.read(job, offset):
        events.append(
            {
                "kind": "log",
                "attempt": line.attempt,
                "replica": line.replica,
                "time": line.time,
                "stream": line.stream,
                "text": line.text,
                "offset": line.offset,
            }
        )
        if len(events) == _LINES_AT_ONCE:
            break
    return events


def _line(event: dict[str, Any]) -> str:
    return json.dumps(event) + "\n"
