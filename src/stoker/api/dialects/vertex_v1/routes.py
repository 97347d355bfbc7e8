"""Vertex AI v1 over HTTP: customJobs.create, get, list, cancel, delete (contract, section 7)."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from stoker.api.errors import about
from stoker.api.field_mask import partial, read_mask
from stoker.api.listing import Filterable, page_of, read_page, read_wanted
from stoker.api.pools import Route, in_thread
from stoker.api.proto_json import with_numbers
from stoker.api.services import Services, check_places, check_project, read_json, services, site_rules, user
from stoker.control.submission import Fields, Submission
from stoker.core.errors import BadSpec, NotFound, NotReady, Violation
from stoker.core.ids import CUSTOM_JOB_PREFIX, job_id
from stoker.core.states import FINAL_JOB_STATES
from stoker.store.base import Listed

from . import later
from .custom_jobs import DIALECT, POOL_SPECS, STATES, answer, location_of, read_custom_job
from .messages import CUSTOM_JOB, JOB_STATE

FILTERABLE = Filterable(
    texts=frozenset({"displayName", "name"}),
    times=frozenset({"createTime", "startTime", "endTime", "updateTime"}),
    states={name: None for name in JOB_STATE.numbers} | {name: state for state, name in STATES.items()},
)
FIELDS = Fields(shape=POOL_SPECS, image=POOL_SPECS, files=POOL_SPECS, queue="labels.stoker-queue")
_DELETED = {
    "done": True,
    "metadata": {"@type": "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"},
    "response": {"@type": "type.googleapis.com/google.protobuf.Empty"},
}

Alt = Annotated[str, Query(alias="$alt")]

jobs = APIRouter(route_class=Route, prefix="/v1/projects/{project}/locations/{location}/customJobs")


@jobs.post("")
async def create(project: str, location: str, request: Request, fields: str = "", alt: Alt = "") -> Any:
    """customJobs.create."""
    mask, body = read_mask(fields), await read_json(request)
    shown = await in_thread(_create, services(request), project, location, body, user(request))
    return partial(_encoded(shown, alt), mask)


def _create(site: Services, project: str, location: str, body: Any, owner: str) -> Any:
    check_project(project)
    asked = read_custom_job(body, location, site_rules(site))
    check_places(
        site.files,
        ("job_spec.base_output_directory", asked.spec.job_dir),
        **{POOL_SPECS: asked.spec.program.packages},
    )
    name = f"{CUSTOM_JOB_PREFIX}{10**18 + secrets.randbelow(8 * 10**18)}"
    job = site.commands.submit(
        Submission(project, name, asked.spec, request=asked.request, labels=asked.labels, owner=owner, fields=FIELDS)
    )
    return answer(Listed(n=0, job=job, attempt=None))


@jobs.get("/{number}")
def get(project: str, location: str, number: str, request: Request, fields: str = "", alt: Alt = "") -> Any:
    """customJobs.get."""
    mask = read_mask(fields)
    return partial(_encoded(answer(_find(services(request), project, location, number)), alt), mask)


@jobs.get("")
def list_jobs(
    project: str,
    location: str,
    request: Request,
    pageSize: str = "20",
    pageToken: str = "",
    filter: str = "",
    readMask: str = "",
    fields: str = "",
    alt: Alt = "",
) -> Any:
    """customJobs.list, newest first. The location `-` is all of them."""
    check_project(project)
    site, mask, read = services(request), read_mask(fields), read_mask(readMask, "read_mask")
    page, wanted = read_page(pageSize, pageToken), read_wanted(filter, FILTERABLE)

    def show(listed: Listed) -> dict[str, Any] | None:
        is_here = location in ("-", location_of(listed.job))
        return answer(listed) if is_here else None

    found, token = page_of(site.store, project, page, wanted, wanted.which(DIALECT), show)
    shown: dict[str, Any] = {"nextPageToken": token} if token else {}
    if found:
        shown["customJobs"] = [partial(_encoded(job, alt), read) for job in found]
    return partial(shown, mask)


@jobs.post("/{verb}")
async def cancel(project: str, location: str, verb: str, request: Request) -> Any:
    """customJobs.cancel. Of no effect on a job that has ended."""
    number, _, action = verb.rpartition(":")
    if action != "cancel":
        raise NotFound(f"no method {verb[:200]!r} of customJobs")
    if await read_json(request) != {}:
        raise BadSpec([Violation("body", "customJobs.cancel takes an empty body, {}")])
    await in_thread(_cancel, services(request), project, location, number, user(request))
    return {}


def _cancel(site: Services, project: str, location: str, number: str, owner: str) -> None:
    site.commands.cancel(_find(site, project, location, number).job.id, owner=owner)


@jobs.delete("/{number}")
def delete(project: str, location: str, number: str, request: Request) -> Any:
    """customJobs.delete: done at once. A job that has not ended is refused."""
    site = services(request)
    job = _find(site, project, location, number).job
    if job.state not in FINAL_JOB_STATES:
        raise NotReady([Violation("name", "the job has not ended")], fix="cancel it, and wait until it has ended")
    site.commands.forget(job.id, owner=user(request))
    site.logs.forget(job.id)
    operation = f"projects/{project}/locations/{location}/operations/{number}"
    return {"name": operation, **_DELETED}


def _find(site: Services, project: str, location: str, number: str) -> Listed:
    """The custom job of that number. Raises NotFound."""
    with about("name"):
        missing = NotFound(f"no custom job {number[:80]!r} in {location[:80]}")
        if not (number.isascii() and number.isdecimal()):
            raise missing
        try:
            listed = site.store.job(job_id(project, CUSTOM_JOB_PREFIX + number))
        except NotFound:
            raise missing from None
        if listed.job.request.dialect != DIALECT or location_of(listed.job) != location:
            raise missing
        return listed


def _encoded(shown: Any, alt: str) -> Any:
    """With enums by number, if the client asks for that."""
    return with_numbers(CUSTOM_JOB, shown) if "enum-encoding=int" in alt.split(";") else shown


router = APIRouter(route_class=Route)
for part in (jobs, later.router):
    router.include_router(part)
