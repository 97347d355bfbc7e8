"""The folders that a job names, for replicas on machines that do not have them: what is there, and bytes, there and back.

A replica's token opens those of its own job, and writes only while its attempt lives.
"""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.dialects.replica.attempts import live_attempt
from stoker.api.download import file_response
from stoker.api.pools import Route, entered_in_thread, in_thread
from stoker.api.services import Services, services
from stoker.control.enact import launch_folders
from stoker.core.errors import BadSpec, NotFound, Violation
from stoker.core.ids import job_id
from stoker.store.files import Files

MOST_FILES = 500_000
_LATEST_NS = 1 << 62

router = APIRouter(route_class=Route, prefix="/folders/{folder}")


@router.get("")
def files(project: str, number: str, folder: int, request: Request, below: str = "") -> Any:
    """The files of a folder, or below a path in it: path → [bytes, nanoseconds]."""
    opened, uri = _folder(services(request), job_id(project, number), folder)
    found = {}
    for path, stat in opened.below(uri, below):
        found[path] = [stat.st_size, stat.st_mtime_ns]
        if len(found) > MOST_FILES:
            raise _bad("folder", f"it has more than {MOST_FILES:,} files; give a job a folder of its own")
    return {"files": found}


@router.get("/{path:path}")
def download(project: str, number: str, folder: int, path: str, request: Request) -> Response:
    """A file. One that is not there is refused as INVALID_ARGUMENT: NOT_FOUND tells a replica that its attempt is over."""
    opened, uri = _folder(services(request), job_id(project, number), folder)
    try:
        return file_response(opened, _file(uri, path))
    except NotFound as error:
        raise _bad("path", error.message) from None


@router.put("/{path:path}")
async def upload(project: str, number: str, folder: int, path: str, request: Request, mtime_ns: int = 0) -> Any:
    """Write a file, whole or not at all, also when it is cut off or the attempt ends meanwhile."""
    site, attempt = services(request), job_id(project, number)
    opened, uri = await in_thread(_folder, site, attempt, folder)
    async with entered_in_thread(opened.write(_file(uri, path))) as file:
        async for chunk in request.stream():
            await in_thread(file.write, chunk)
        await in_thread(live_attempt, site, attempt)
        await in_thread(file.flush)
        if 0 < mtime_ns < _LATEST_NS:
            await in_thread(os.utime, file.fileno(), ns=(mtime_ns, mtime_ns))
        stat = await in_thread(os.fstat, file.fileno())
    return {"stamp": [stat.st_size, stat.st_mtime_ns]}


@router.delete("/{path:path}")
def remove(project: str, number: str, folder: int, path: str, request: Request) -> Any:
    """Remove a file, or all that is below a path, if it is there."""
    opened, uri = _folder(services(request), job_id(project, number), folder)
    opened.remove(_file(uri, path))
    return {}


def _folder(site: Services, attempt: str, number: int) -> tuple[Files, str]:
    """The site's files as the job's owner has them, and the URI of one of its folders."""
    job = site.store.job(live_attempt(site, attempt).job).job
    uris = list(launch_folders(site.files, job.spec))
    if not 0 <= number < len(uris):
        raise _bad("folder", f"this launch has no folder {number}")
    return site.files.of(job.owner), uris[number]


def _file(uri: str, path: str) -> str:
    if not path or path.endswith("/"):
        raise _bad("path", f"{path[-80:]!r} is not the name of a file")
    return f"{uri.rstrip('/')}/{path}"


def _bad(what: str, problem: str) -> BadSpec:
    return BadSpec([Violation(what, problem)])
