"""AI Platform v1 over HTTP: jobs.create, get, list, cancel, patch; the rest is in its neighbours (contract, section 1)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from stoker.api.errors import about
from stoker.api.field_mask import partial, read_mask
from stoker.api.labels import label_violations
from stoker.api.listing import Filterable, page_of, read_page, read_wanted
from stoker.api.pools import Route, in_thread
from stoker.api.proto_json import STRING
from stoker.api.services import TAKEN, Services, check_places, check_project, read_json, services, site_rules, user
from stoker.control.submission import Submission
from stoker.core.errors import BadSpec, NotFound, Unimplemented, Violation
from stoker.core.ids import job_id
from stoker.core.states import JobState, ShownState
from stoker.store.base import Listed

from . import later, places
from .jobs import AskedJob, answer, read_job, revision_of
from .messages import JOB, TRAINING_INPUT

FILTERABLE = Filterable(
    texts=frozenset(
        {
            "jobId",
            "errorMessage",
            *(f"trainingInput.{n}" for n, kind in TRAINING_INPUT.fields.items() if kind == STRING),
        }
    ),
    times=frozenset({"createTime", "startTime", "endTime"}),
    states={"STATE_UNSPECIFIED": None, **{str(state): state for state in ShownState}},
    name="jobId",
)

jobs = APIRouter(route_class=Route, prefix="/v1/projects/{project}")


@jobs.post("/jobs")
async def create(project: str, request: Request, fields: str = "") -> Any:
    """jobs.create."""
    mask, body = read_mask(fields), await read_json(request)
    return partial(await in_thread(submit, services(request), project, body, user(request)), mask)


def submit(site: Services, project: str, body: Any, owner: str, *, rehearse: bool = False) -> dict[str, Any]:
    """Understand a Job body, submit it, and show it as it is now."""
    asked = understood(site, project, body)
    with about("job.job_id", fix=TAKEN):
        job = site.commands.submit(
            Submission(
                project,
                asked.name,
                asked.spec,
                request=asked.request,
                labels=asked.labels,
                owner=owner,
                rehearse=rehearse,
            )
        )
    return answer(Listed(n=0, job=job, attempt=None))


def understood(site: Services, project: str, body: Any) -> AskedJob:
    """What a Job body asks for. Raises BadSpec with everything that is wrong with it."""
    check_project(project)
    asked = read_job(body, site_rules(site))
    check_places(site.files, ("job_dir", asked.spec.job_dir), package_uris=asked.spec.program.packages)
    return asked


@jobs.get("/jobs/{name}")
def get(project: str, name: str, request: Request, fields: str = "") -> Any:
    """jobs.get."""
    _refuse_iam(name)
    site, mask = services(request), read_mask(fields)
    with about("name"):
        return partial(_shown(site, site.store.job(job_id(project, name))), mask)


@jobs.get("/jobs")
def list_jobs(
    project: str, request: Request, pageSize: str = "20", pageToken: str = "", filter: str = "", fields: str = ""
) -> Any:
    """jobs.list, newest first."""
    check_project(project)
    site, mask = services(request), read_mask(fields)
    page, wanted = read_page(pageSize, pageToken), read_wanted(filter, FILTERABLE)
    found, token = page_of(site.store, project, page, wanted, wanted.which(), lambda listed: _shown(site, listed))
    shown = ({"jobs": found} if found else {}) | ({"nextPageToken": token} if token else {})
    return partial(shown, mask)


@jobs.post("/jobs/{verb}")
async def cancel(project: str, verb: str, request: Request) -> Any:
    """jobs.cancel. Of no effect on a job that has ended."""
    _refuse_iam(verb)
    name, _, action = verb.rpartition(":")
    if action != "cancel":
        raise NotFound(f"no method {verb[:200]!r} of jobs")
    body = await read_json(request)
    if body != {}:
        raise BadSpec([Violation("body", "jobs.cancel takes an empty body, {}")])
    with about("name"):
        await in_thread(services(request).commands.cancel, job_id(project, name), owner=user(request))
    return {}


@jobs.patch("/jobs/{name}")
async def patch(project: str, name: str, request: Request, updateMask: str = "", fields: str = "") -> Any:
    """jobs.patch: labels, guarded by an etag if the mask has one."""
    mask = read_mask(fields)
    labels, revision = _read_patch(await read_json(request), name, updateMask)
    with about("name"):
        job = job_id(project, name)
        return partial(await in_thread(_relabel, services(request), job, labels, revision, user(request)), mask)


def _read_patch(body: Any, name: str, update_mask: str) -> tuple[dict[str, str] | None, int | None]:
    """The new labels and the revision that they are for; None for what the mask does not name. Raises BadSpec."""
    violations: list[Violation] = []
    read = JOB.read(body, "job", violations)
    mask = {part.strip() for part in update_mask.split(",") if part.strip()}
    if not mask or not mask <= {"labels", "etag"}:
        violations.append(Violation("update_mask", "only labels and etag can be changed: updateMask=labels"))
    labels: dict[str, str] = read.get("labels", {})
    violations += label_violations(labels)
    if violations:
        raise BadSpec(violations)
    return labels if "labels" in mask else None, revision_of(read.get("etag", ""), name) if "etag" in mask else None


def _relabel(site: Services, job: str, labels: dict[str, str] | None, revision: int | None, owner: str) -> Any:
    kept = site.store.job(job).job.labels if labels is None else labels
    return _shown(site, site.commands.relabel(job, kept, owner=owner, if_revision=revision))


def _shown(site: Services, listed: Listed) -> dict[str, Any]:
    """The job as this dialect shows it, with its place in the queue if it has one."""
    is_waiting = listed.job.state is JobState.QUEUED
    return answer(listed, position=site.queue.position(listed.job.id) if is_waiting else None)


def _refuse_iam(verb: str) -> None:
    """In the contract, but there are no policies here: one token opens everything."""
    if verb.rpartition(":")[2] in ("getIamPolicy", "setIamPolicy", "testIamPermissions"):
        raise Unimplemented("this Stoker has no IAM policies")


router = APIRouter(route_class=Route)
for part in (jobs, later.router, places.router):
    router.include_router(part)
