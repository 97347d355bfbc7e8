"""The folders that a job names, for replicas on machines that do not have them: what is there, and bytes, there and back.

A replica's token opens those of its own job, and writes only while its attempt lives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.dialects.replica.attempts import live_attempt
from stoker.api.download import response_of
from stoker.api.pools import Route, entered_in_thread, in_thread
from stoker.api.services import Services, services
from stoker.control.enact import launch_folders
from stoker.core.errors import BadSpec, Unavailable, Violation
from stoker.core.ids import job_id
from stoker.store.files import write_errors
from stoker.store.root import Root

MOST_FILES = 500_000
_LATEST_NS = 1 << 62

router = APIRouter(route_class=Route, prefix="/folders/{folder}")


@router.get("")
def files(project: str, number: str, folder: int, request: Request, below: str = "") -> Any:
    """The files of a folder, or below a path in it: path → [bytes, nanoseconds]."""
    found = {}
    with _folder(services(request), job_id(project, number), folder) as root:
        if root is None:
            return {"files": {}}
        try:
            for path, stat in root.walk(below):
                found["/".join(filter(None, (below, path)))] = [stat.st_size, stat.st_mtime_ns]
                if len(found) > MOST_FILES:
                    raise _bad("folder", f"it has more than {MOST_FILES:,} files; give a job a folder of its own")
        except OSError as error:  # a list that lacks something would be taken for one of what is there
            raise Unavailable(f"the job's folder cannot be read: {error}") from error
    return {"files": found}


@router.get("/{path:path}")
def download(project: str, number: str, folder: int, path: str, request: Request) -> Response:
    """A file. One that is not there is refused as INVALID_ARGUMENT: NOT_FOUND tells a replica that its attempt is over."""
    opened = ExitStack()
    with _folder(services(request), job_id(project, number), folder) as root:
        try:
            if root is None:
                raise FileNotFoundError(path)
            return response_of(opened, opened.enter_context(root.open(_named(path))))
        except PermissionError as error:
            raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
        except OSError:
            raise _bad("path", f"there is no file {path}") from None


@router.put("/{path:path}")
async def upload(project: str, number: str, folder: int, path: str, request: Request, mtime_ns: int = 0) -> Any:
    """Write a file, whole or not at all, also when it is cut off or the attempt ends meanwhile."""
    site, attempt = services(request), job_id(project, number)
    async with AsyncExitStack() as stack:
        root = await stack.enter_async_context(entered_in_thread(_folder(site, attempt, folder, make=True)))
        assert root is not None
        stack.enter_context(write_errors(path))
        file = await stack.enter_async_context(entered_in_thread(root.replacing(_named(path))))
        async for chunk in request.stream():
            await in_thread(file.write, chunk)
        await in_thread(file.flush)
        if 0 < mtime_ns < _LATEST_NS:
            await in_thread(os.utime, file.fileno(), ns=(mtime_ns, mtime_ns))
        await in_thread(os.fsync, file.fileno())  # which may take long: what has ended meanwhile writes nothing
        stat = await in_thread(os.fstat, file.fileno())
        await in_thread(live_attempt, site, attempt)
    return {"stamp": [stat.st_size, stat.st_mtime_ns]}


@router.delete("/{path:path}")
def remove(project: str, number: str, folder: int, path: str, request: Request) -> Any:
    """Remove a file, or all that is below a path, if it is there."""
    with _folder(services(request), job_id(project, number), folder) as root:
        if root is not None:
            with write_errors(path):
                root.remove(_named(path))
    return {}


@contextmanager
def _folder(site: Services, attempt: str, number: int, *, make: bool = False) -> Iterator[Root | None]:
    """One of a job's folders, as its owner has it, held open; None: it is not there."""
    job = site.store.job(live_attempt(site, attempt).job).job
    uris = list(launch_folders(site.files, job.spec))
    if not 0 <= number < len(uris):
        raise _bad("folder", f"this launch has no folder {number}")
    with ExitStack() as stack:
        try:
            root = stack.enter_context(site.files.of(job.owner).folder(uris[number], make=make))
        except FileNotFoundError:
            root = None
        yield root


def _named(path: str) -> str:
    if not path or path.endswith("/"):
        raise _bad("path", f"{path[-80:]!r} is not the name of a file")
    return path


def _bad(what: str, problem: str) -> BadSpec:
    return BadSpec([Violation(what, problem)])
