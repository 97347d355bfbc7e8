"""The files below a job's directory: models, checkpoints, whatever its program wrote."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.core.errors import Unimplemented
from stoker.core.ids import job_id
from stoker.store.files import FAR, Files, cloud_errors
from stoker.store.objects.listing import Walk, Wanted, page
from stoker.store.root import Root

from .answers import a_router, answer, declares
from .schemas.jobs import Artifact, Artifacts
from .schemas.words import Name, Project, asks

LARGEST_PAGE = 10_000

router = a_router("files")


class Found(NamedTuple):
    """A file: its name below the folder, its size in bytes, and when it was written, in seconds since 1970."""

    name: str
    size: int
    modified_at: float | None


@router.get("/projects/{project}/jobs/{name}/artifacts", responses=declares(Artifacts, 400, 404, 503))
def list_artifacts(
    project: Project,
    name: Name,
    request: Request,
    after: Annotated[
        str, asks("Only files whose name comes after this: the `next` of another page.", "model/weights.h5")
    ] = "",
    limit: Annotated[int, asks("At most so many; 1 to 10000, what is outside counts as the nearest.", 100)] = 1000,
) -> Response:
    """The files below a job's directory, in pages, by name. Of a job without a directory there are none.

    Each has its address, and the path on this server from which it can be downloaded.
    """
    site, limit = services(request), max(1, min(limit, LARGEST_PAGE))
    job_dir = site.store.job(job_id(project, name)).job.spec.job_dir
    files, after = files_below(site.files, job_dir, Wanted(after=after, limit=limit)) if job_dir else ([], "")
    found: Artifacts = {
        "job_dir": job_dir,
        "artifacts": [_row(job_dir, file) for file in files],
        "next": after or None,
    }
    return answer(found)


def files_below(files: Files, job_dir: str, wanted: Wanted) -> tuple[list[Found], str]:
    """A page of the files below a directory, by name, and where the next page goes on; empty: there is none."""
    place = files.place(job_dir, is_programs=True)
    if place.root is not None:
        return _below(place.root, place.name.rstrip("/"), wanted)
    if FAR.fullmatch(job_dir):
        raise Unimplemented(f"{job_dir} is where its program goes, not the server: look there by a tool of its own")
    scheme, _, root = job_dir.rstrip("/").partition("://")
    with cloud_errors(job_dir):
        infos: dict[str, dict[str, Any]] = files.cloud(scheme).find(root, detail=True)
    found = {path.removeprefix(root).lstrip("/"): info for path, info in infos.items()}
    names = page(iter(sorted(found)), wanted)
    return [Found(name, int(found[name].get("size") or 0), _time(found[name])) for name in names.names], names.next


def _below(root: Root, folder: str, wanted: Wanted) -> tuple[list[Found], str]:
    top = f"{folder}/" if folder else ""
    inside = replace(wanted, prefix=top, after=wanted.after and top + wanted.after)
    names = page(Walk(root, inside, frozenset()).names(), inside)
    stats = root.stats(names.names)  # None: it has gone meanwhile
    found = [Found(name.removeprefix(top), s.st_size, s.st_mtime) for name in names.names if (s := stats[name])]
    return found, names.next.removeprefix(top)


def _time(info: dict[str, Any]) -> float | None:
    """When a cloud says that a file was written; each has its own word for it."""
    written = info.get("updated") or info.get("LastModified") or info.get("mtime")
    if isinstance(written, str):
        written = datetime.fromisoformat(written)
    return written.timestamp() if isinstance(written, datetime) else None


def _row(job_dir: str, file: Found) -> Artifact:
    uri = f"{job_dir.rstrip('/')}/{file.name}"
    scheme, _, rest = uri.partition("://")
    return {
        "name": file.name,
        "uri": uri,
        "size_bytes": file.size,
        "modified_at": file.modified_at,
        "download": f"/stoker/v1/files/{scheme}/{quote(rest)}" if rest else None,
    }
