"""What replicas say: that they live, where they are, what they print, how they end.

Their token opens their own attempt's routes only.

Writes of an attempt that has ended are refused: another one may have taken its place.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.dialects.replica import folders
from stoker.api.dialects.replica.attempts import live_attempt
from stoker.api.download import file_response
from stoker.api.pools import Route, in_thread
from stoker.api.services import Services, json_of, read_body, read_json, services
from stoker.control.enact import launch_files
from stoker.core.changes import Note
from stoker.core.errors import BadSpec, NotFound, Violation
from stoker.core.ids import job_id, job_of_attempt
from stoker.core.job import Attempt, Replica
from stoker.core.states import FINAL_REPLICA_STATES, AttemptState, ReplicaState, Standing
from stoker.core.world import tells_news
from stoker.store.files import write_errors
from stoker.store.logs import ASIDE

JOIN_SECONDS = 30.0
MOST_LINES_BYTES = 2 << 20
"""A supervisor ships a quarter of a MiB at a time, and seldom a MiB."""

_FULL_BYTES_PER_SECOND = 1 << 20  # of a job of which no more is kept: it could post for ever
NOT_YET = b"{}"
_MOST_MESSAGE_CHARACTERS = 4000
_MOST_SIGN_CHARACTERS = 40
_MOST_EVIDENCE_CHARACTERS = 500

router = APIRouter(route_class=Route, prefix="/stoker/replica/v1/{project}/{number}/{replica}")
router.include_router(folders.router)


@router.post("/join")
async def join(project: str, number: str, replica: str, request: Request) -> Any:
    """Note where a replica is, and answer once everybody has said it; empty after a while, to be asked again."""
    site, body = services(request), await read_json(request)
    attempt = job_id(project, number)
    addresses = body.get("addresses") if isinstance(body, dict) else None
    await in_thread(_report, site, attempt, replica, {"seen": "STARTING", "addresses": addresses})
    found = await site.rendezvous.wait(attempt, job_of_attempt(attempt), lambda: _met(site, attempt), JOIN_SECONDS)
    return Response(found or NOT_YET, media_type="application/json")


@router.post("/beat")
def beat(project: str, number: str, replica: str, request: Request) -> Any:
    """A sign of life, by which a lease is renewed. The answer tells to `stop`, for who is not reached by its engine."""
    found = _heard(services(request), job_id(project, number), replica)
    return {"stop": True} if found.state is AttemptState.STOPPING else {}


@router.post("/lines")
async def lines(project: str, number: str, replica: str, request: Request) -> Any:
    """Keep lines of output."""
    _, answer = await _take_lines(services(request), job_id(project, number), replica, request)
    return answer


@router.post("/report")
async def report(project: str, number: str, replica: str, request: Request) -> Any:
    """Note what became of a replica, after the lines that come with it."""
    site, attempt = services(request), job_id(project, number)
    body, answer = await _take_lines(site, attempt, replica, request)
    if not answer:
        await in_thread(_report, site, attempt, replica, body)
    return answer


@router.get("/files/{file}")
def download(project: str, number: str, replica: str, file: int, request: Request) -> Response:
    """A file of the launch, by its number."""
    site = services(request)
    attempt = live_attempt(site, job_id(project, number))
    job = site.store.job(attempt.job).job
    uris = launch_files(job)
    if not 0 <= file < len(uris):
        raise NotFound(f"this launch has no file {file}")
    return file_response(site.files.of(job.owner), uris[file])


def _heard(site: Services, attempt: str, name: str) -> Attempt:
    """The attempt of a replica that has said something just now."""
    found = live_attempt(site, attempt)
    site.leases.hear(found, _replica(found, name), site.commands.clock.now())
    return found


def _replica(attempt: Attempt, name: str) -> Replica:
    for replica in attempt.replicas:
        if f"{replica.role}-{replica.index}" == name:
            return replica
    raise NotFound(f"attempt {attempt.id} has no replica {name}")


async def _take_lines(site: Services, attempt: str, replica: str, request: Request) -> tuple[Any, dict[str, int]]:
    """Keep the lines of a request: one request of a job at a time. Returns its body, and the answer."""
    job = job_of_attempt(attempt)
    async with site.turns.of(job) as turn:
        raw = await read_body(request, MOST_LINES_BYTES)
        async with turn:
            body = await json_of(request, raw)
            answer = await in_thread(_keep_lines, site, attempt, replica, body)
            if site.logs.is_full(job):
                await asyncio.sleep(len(raw) / _FULL_BYTES_PER_SECOND)
    return body, answer


def _keep_lines(site: Services, attempt: str, replica: str, body: Any) -> dict[str, int]:
    """Keep them. Returns what the replica has to be told: `after` which number lines are lost, so that it ships them again."""
    _heard(site, attempt, replica)
    found = body.get("lines", []) if isinstance(body, dict) else None
    if not isinstance(found, list) or not all(map(_is_line, found)):
        raise BadSpec([Violation("lines", "a list of {n, t, s, m} is needed")])
    with write_errors(f"the log of {attempt}"):  # a full disk: the replica keeps its lines, and ships them again
        shipped = body.get("after")
        lost = site.logs.lost_after(attempt, replica, shipped) if isinstance(shipped, int) else None
        if lost is not None:
            return {"after": lost}
        site.logs.append(attempt, replica, found)
        if body.get("seen") in list(FINAL_REPLICA_STATES):  # be it what it may
            site.logs.end(attempt, replica)
    return {}


def _is_line(line: Any) -> bool:
    return (
        isinstance(line, dict)
        and isinstance(line.get("n"), int)
        and 0 < line["n"] < 1 << 62
        and isinstance(line.get("t"), int | float)
        and math.isfinite(line["t"])
        and line.get("s") in ("out", "err", "service", *ASIDE)
        and isinstance(line.get("m"), str)
    )


def _report(site: Services, attempt: str, name: str, body: Any) -> None:
    found = live_attempt(site, attempt)
    replica = _replica(found, name)
    try:
        code = body.get("exit_code")
        note = Note(
            attempt=attempt,
            role=replica.role,
            index=replica.index,
            seen=ReplicaState(body["seen"]),
            at=site.commands.clock.now(),
            exit_code=None if code is None else int(code),
            addresses=tuple(map(_text, body.get("addresses", ()))),
            message=_text(body.get("message", ""))[:_MOST_MESSAGE_CHARACTERS],
            out_of_memory=bool(body.get("out_of_memory")),
            restarts=int(body.get("restarts", 0)),
            sign=_text(body.get("sign", ""))[:_MOST_SIGN_CHARACTERS],
            evidence=_text(body.get("evidence", ""))[:_MOST_EVIDENCE_CHARACTERS],
            place=_text(body.get("place", ""))[:_MOST_EVIDENCE_CHARACTERS],
            alike=int(body.get("alike", 0)),
            standing=Standing(body.get("standing", "")),
        )
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadSpec([Violation("report", f"not a report: {error}")]) from None
    if tells_news(found, note):
        site.store.commit([note], by=f"replica {name}")


def _text(value: Any) -> str:
    """A text that can be written down: half a character (a lone surrogate) becomes a question mark."""
    return str(value).encode(errors="replace").decode()


def _met(site: Services, attempt: str) -> bytes:
    """The answer to all who join, once everybody has; at once for who is to stop. Empty: somebody is missing yet."""
    found = live_attempt(site, attempt)
    if found.state is AttemptState.STOPPING:
        return NOT_YET
    return json.dumps({"cluster": _cluster(found)}).encode() if all(r.addresses for r in found.replicas) else b""


def _cluster(attempt: Attempt) -> dict[str, list[list[str]]]:
    """Role → for each index its addresses. Replicas that have ended already keep theirs."""
    cluster: dict[str, list[list[str]]] = {}
    for replica in sorted(attempt.replicas, key=lambda r: r.index):
        cluster.setdefault(replica.role, []).append(list(replica.addresses))
    return cluster
