"""What a job prints, as a stream of JSON lines that can be taken up again; and all that happens to it, as another."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import Request
from starlette.responses import Response

from stoker.api import stream as streams
from stoker.api.pools import in_thread
from stoker.api.services import services
from stoker.api.stream import NDJSON, Stream, Wanted
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import job_id, replica_name
from stoker.core.job import Job

from .answers import a_router, refused, schema_of
from .schemas.events import EndEvent, LogEvent, StateEvent
from .schemas.words import MOST_POSITION, Name, Project, asks

MOST_LINES = 1 << 40

router = a_router("logs")

After = Annotated[
    int, asks("Only lines after this one: a `sequence` that was told before.", 1387, ge=0, le=MOST_POSITION)
]


def _tells(example: str, *kinds: Any) -> dict[int | str, dict[str, Any]]:
    content = {NDJSON: {"schema": schema_of(*kinds), "example": example}}
    return {200: {"description": "One JSON object a line.", "content": content}, **refused(400, 404)}


_LOG = (
    '{"kind": "log", "sequence": 1387, "time": 1795190402.125, "attempt": "local/train_3f2a.1", "replica": "chief-0",'
    ' "stream": "out", "text": "epoch 1/5"}\n'
)
_STATE = '{"kind": "state", "state": "RUNNING", "attempt": 1, "replicas": 1, "up": 1}\n'
_END = (
    '{"kind": "end", "state": "SUCCEEDED", "exit_code": 0, "message": "", "submitted_at": 1795190400.0,'
    ' "started_at": 1795190401.5, "ended_at": 1795190460.25}\n'
)


@router.get(
    "/projects/{project}/jobs/{name}/logs",
    responses=_tells(_LOG + _END, LogEvent, EndEvent),
)
async def get_logs(
    project: Project,
    name: Name,
    request: Request,
    after: After = 0,
    limit: Annotated[int | None, asks("At most so many lines; without it, all.", 100, ge=1, le=MOST_LINES)] = None,
    follow: Annotated[bool, asks("Wait for more until the job has ended, and tell how it did.", True)] = False,
    replica: Annotated[str, asks("Only lines of this replica.", "worker-0")] = "",
    stream: Annotated[
        Literal["", "out", "err", "service"],
        asks("Only lines of this stream: out, err, or service (what Stoker says).", "out"),
    ] = "",
) -> Response:
    """What a job printed, one JSON object a line, all replicas in the order in which it arrived.

    Each line has a `sequence`. Whoever asks `after` the last one that they have gets every line after it, once: a reader that
    was cut off loses nothing, also when the server was restarted. With `follow` the last object is of the kind `end`; where
    it is missing, the stream was cut off, or `limit` was reached.
    """
    site, job = services(request), job_id(project, name)
    listed = await in_thread(site.store.job, job)
    wanted = Wanted(replica=_replica(listed.job, replica), stream=stream, most=limit or MOST_LINES)
    return Stream(streams.lines(site, job, wanted, after=after, to_end=follow))


@router.get(
    "/projects/{project}/jobs/{name}/stream",
    responses=_tells(_STATE + _LOG + _END, StateEvent, LogEvent, EndEvent),
)
async def stream_job(
    project: Project,
    name: Name,
    request: Request,
    logs: Annotated[bool, asks("Whether its lines are told too.", True)] = True,
    after: After = 0,
    follow: Annotated[bool, asks("Go on until the job has ended, and tell how it did.", True)] = True,
) -> Response:
    """What happens to a job, one JSON object a line: its states and why it waits, its lines, and its end.

    Where the last object is not of the kind `end`, the stream was cut off: ask again, `after` the last `sequence`.
    """
    site, job = services(request), job_id(project, name)
    await in_thread(site.store.job, job)
    return Stream(streams.follow(site, job, logs=logs, after=after, to_end=follow))


def _replica(job: Job, text: str) -> str:
    """The name of a replica as it is written with its lines. Raises BadSpec with those there are."""
    wanted = re.sub(r"^master\b", "chief", text)
    known = [replica_name(group.role, index) for group in job.spec.groups for index in range(group.count)]
    if text and wanted not in known:
        some = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if known[8:] else "")
        raise BadSpec([Violation("replica", f"{text[:80]!r} is no replica of this job; there are {some}")])
    return wanted
