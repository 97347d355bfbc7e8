"""Jobs: lists of them, and one in full."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Request
from starlette.responses import Response

from stoker.api.listing import Filterable, Page, page_of, read_wanted
from stoker.api.services import access_of, services, user
from stoker.core.ids import job_id, split_job_id
from stoker.core.states import ShownState
from stoker.store.base import Listed

from .answers import a_router, answer, declares
from .describe import describe, row
from .schemas.jobs import JobDetails, JobList, LiveJobs
from .schemas.words import MOST_POSITION, Name, Project, asks

LARGEST_PAGE = 1000
FILTERABLE = Filterable(
    texts=frozenset({"jobId", "user", "queue"}),
    times=frozenset({"createTime", "startTime", "endTime"}),
    states={str(state): state for state in ShownState},
    name="jobId",
)

router = a_router("jobs")


@router.get("/jobs", responses=declares(LiveJobs))
def list_live_jobs(request: Request) -> Response:
    """What waits or runs, of every project that the token opens, in the order of submission."""
    sees = access_of(request).sees
    with services(request).live.look() as world:
        ids = [split_job_id(job.id) for job in sorted(world.jobs.values(), key=lambda job: job.submitted_at)]
    found: LiveJobs = {"jobs": [{"project": project, "name": name} for project, name in ids if sees(project)]}
    return answer(found)


@router.get("/projects/{project}/jobs", responses=declares(JobList, 400))
def list_jobs(
    project: Project,
    request: Request,
    limit: Annotated[int, asks("At most so many; 1 to 1000, what is outside counts as the nearest.", 20)] = 20,
    before: Annotated[
        int, asks("Only jobs from before this: the `next` of another page.", 17, ge=0, le=MOST_POSITION)
    ] = MOST_POSITION,
    filter: Annotated[
        str, asks("Only these, in gcloud's language: `state=FAILED AND labels.team=vision`.", "user=ada")
    ] = "",
) -> Response:
    """The jobs of a project in pages, newest first, each with why it waits.

    A filter compares jobId, user, queue, state, createTime, startTime, endTime and labels.KEY. A page of a filter that few jobs
    pass may be short, or empty, and have a `next`.
    """
    limit = max(1, min(limit, LARGEST_PAGE))
    page, wanted = Page(limit, None if before == MOST_POSITION else before), read_wanted(filter, FILTERABLE)
    shown, token = page_of(services(request).store, project, page, wanted, wanted.which(), _judged)
    found: JobList = {"jobs": [one["row"] for one in shown], "next": int(token) if token else None}
    return answer(found)


def _judged(listed: Listed) -> dict[str, Any]:
    """A job as filters see it, by the names that gcloud has for it, and its row."""
    found, job = row(listed), listed.job
    times = {"createTime": found["submitted_at"], "startTime": found["started_at"], "endTime": found["ended_at"]}
    return {
        "jobId": found["name"],
        "user": found["owner"],
        "queue": found["queue"],
        "state": found["state"],
        "labels": job.labels,
        **{name: datetime.fromtimestamp(at, UTC).isoformat() for name, at in times.items() if at is not None},
        "row": found,
    }


@router.get("/projects/{project}/jobs/{name}", responses=declares(JobDetails, 404))
def get_job(project: Project, name: Name, request: Request) -> Response:
    """One job in full, with its machines, and its attempts with their replicas."""
    site, job = services(request), job_id(project, name)
    return answer(describe(site, site.store.job(job), site.store.attempts(job)))


@router.post("/projects/{project}/jobs/{name}:release", responses=declares(JobDetails, 404, 409))
def release_job(project: Project, name: Name, request: Request) -> Response:
    """Give back the places that are kept after a failure (`hold_seconds`); the job then ends as it failed.

    409 if none is kept.
    """
    site, job = services(request), job_id(project, name)
    site.commands.release(job, owner=user(request))
    return answer(describe(site, site.store.job(job), site.store.attempts(job)))
