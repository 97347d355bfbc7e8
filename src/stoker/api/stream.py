"""What happens to a job, as it happens: its story, its lines, and its end, as one stream of JSON lines.

{"kind": "state", "state": "RUNNING", "reason": …}     what a user sees has changed
{"kind": "log", "sequence": …, "replica": "worker-0", "time": …, "stream": "out", "text": …}
{"kind": "end", "state": "SUCCEEDED", "exit_code": 0, "message": "", "started_at": …, "ended_at": …}

An empty line now and then shows that the server is still there. A `sequence` is where the next line starts in the job's
output: it grows, has gaps, and a reader who asks `after` it goes on there at once, however long the output is. A block of
lines is read, told and forgotten, so memory stays flat.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple, TypedDict

from starlette.responses import StreamingResponse
from starlette.types import Send

from stoker.api.pools import in_thread
from stoker.core.errors import StokerError
from stoker.core.job import Attempt, Job
from stoker.core.states import FINAL_JOB_STATES, JobState, ReplicaState
from stoker.store.base import Listed
from stoker.store.log_file import LogLine

from .download import Pace
from .notifier import wait
from .services import Services

NDJSON = "application/x-ndjson"
KEEP_ALIVE_SECONDS = 15.0
_log = logging.getLogger("stoker.api")
_LINES_AT_ONCE = 2000
TAKEN = ""  # as in download.py


class Stream(StreamingResponse):
    """Lines of JSON as they come.

    Where they cannot go on, such as without the database, the connection is cut: no reader takes the part for the whole, and
    there is no refusing what has begun.
    """

    media_type = NDJSON

    async def stream_response(self, send: Send) -> None:
        """Send all, or leave the answer without its end, upon which the server closes the connection."""
        try:
            await super().stream_response(send)
        except StokerError as error:
            _log.error("a stream is cut off: %s", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines of a job are wanted; empty: all of them."""

    replica: str = ""
    stream: str = ""
    most: int = 1 << 62

    def has(self, line: LogLine) -> bool:
        """Whether this line is one of them."""
        return self.replica in ("", line.replica) and self.stream in ("", line.stream)


_ALL = Wanted()


async def follow(site: Services, job: str, *, logs: bool, after: int, to_end: bool) -> AsyncIterator[str]:
    """Tell what there is, and with `to_end` go on until the job has ended. The caller has checked that it exists."""
    told: dict[str, Any] = {}
    pace = Pace()
    while True:
        ring = site.notifier.next(job)
        listed = await in_thread(site.store.job, job)
        now = state_event(listed)
        if now != told:
            told = now
            yield _line(now)
        before = -1
        while logs and after > before:
            before = after
            with pace.block() as most:
                block = await in_thread(_block, site, job, after, _ALL, most)
                after = block.after
                pace.sent()
                if block.text:
                    yield block.text
                    yield TAKEN
        if listed.job.state in FINAL_JOB_STATES:
            yield _line(end_event(listed.job, listed.attempt))
            return
        if not to_end or site.notifier.closed:
            return
        if not await wait(ring, KEEP_ALIVE_SECONDS):
            yield "\n"


async def lines(site: Services, job: str, wanted: Wanted, *, after: int, to_end: bool) -> AsyncIterator[str]:
    """The wanted lines after a position; with `to_end` also those that are still to come, and then how the job ended."""
    pace = Pace()
    while True:
        ring = site.notifier.next(job)
        listed = await in_thread(site.store.job, job)  # before its lines: of one that has ended they are all there
        before = -1
        while after > before:
            before = after
            with pace.block() as most:
                block = await in_thread(_block, site, job, after, wanted, most)
                after, wanted = block.after, replace(wanted, most=wanted.most - block.lines)
                pace.sent()
                if block.text:
                    yield block.text
                    yield TAKEN
            if not wanted.most:
                return
        if to_end and listed.job.state in FINAL_JOB_STATES:
            yield _line(end_event(listed.job, listed.attempt))
            return
        if not to_end or site.notifier.closed:
            return
        if not await wait(ring, KEEP_ALIVE_SECONDS):
            yield "\n"


class ReasonRow(TypedDict):
    """Why a job waits."""

    code: str
    text: str
    action: str


def state_event(listed: Listed) -> dict[str, Any]:
    """What a user sees of a job now, and why it waits if it does."""
    job, up = listed.job, replicas_up(listed)
    event: dict[str, Any] = {
        "kind": "state",
        "state": str(listed.state),
        "attempt": job.tries,
        "replicas": job.spec.replicas,
    }
    if job.waits is not None:
        event["reason"] = reason(job)
    if job.state is JobState.QUEUED and job.message:
        event["message"] = job.message
    if up is not None:
        event["up"] = up
    return event


def end_event(job: Job, attempt: Attempt | None) -> dict[str, Any]:
    """How a job has ended."""
    return {
        "kind": "end",
        "state": str(job.state),
        "exit_code": exit_code(job, attempt),
        "message": job.message,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
    }


def exit_code(job: Job, attempt: Attempt | None) -> int:
    """The code that a shell should end with, of a job that has ended: that of the replica that failed first, or 1."""
    code = 0 if job.state is JobState.SUCCEEDED else 1
    if job.state is JobState.FAILED and attempt is not None:
        failed = [r for r in attempt.replicas if r.seen is ReplicaState.FAILED and r.exit_code]
        first = min(failed, key=lambda r: r.at, default=None)
        code = first.exit_code if first is not None and first.exit_code else 1
    return code


def reason(job: Job) -> ReasonRow | None:
    """Why a job waits, if it does."""
    waits = job.waits
    return None if waits is None else {"code": waits.code, "text": waits.text, "action": waits.action}


def replicas_up(listed: Listed) -> int | None:
    """How many replicas run or are done; None for a job that has no machines."""
    if listed.attempt is None or listed.job.state is not JobState.ACTIVE:
        return None
    return sum(r.seen in (ReplicaState.UP, ReplicaState.SUCCEEDED) for r in listed.attempt.replicas)


class _Block(NamedTuple):
    """Some lines as they are told: their text, where they end in the job's output, and how many they are."""

    text: str
    after: int
    lines: int


def _block(site: Services, job: str, after: int, wanted: Wanted, most_characters: int) -> _Block:
    """The wanted ones of the next lines, as many as may wait in memory for their reader."""
    found: list[LogLine] = []
    characters = 0
    for read, line in enumerate(site.logs.read(job, after), 1):
        after = line.offset
        characters += len(line.text)
        if wanted.has(line):
            found.append(line)
        if len(found) == wanted.most or read == _LINES_AT_ONCE or characters >= most_characters:
            break
    return _Block(_told(found), after, len(found))


def _told(lines: Sequence[LogLine]) -> str:
    """Lines of a log as server-sent events. Written by hand, which is several times quicker: there may be millions."""
    return "".join(
        f'{{"kind": "log", "sequence": {line.offset}, "time": {line.time!r}, "attempt": {quoted(line.attempt)}, '
        f'"replica": {quoted(line.replica)}, "stream": "{line.stream}", "text": {quoted(line.text)}}}\n'
        for line in lines
    )


def _line(event: dict[str, Any]) -> str:
    return json.dumps(event) + "\n"
