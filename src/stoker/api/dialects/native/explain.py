"""Why a job waits, who holds what it could use, or how it ended."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.core.ids import job_id, split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.states import Cause, JobState
from stoker.scheduling.free import Free
from stoker.store.base import Listed

from .answers import a_router, answer, declares
from .schemas.jobs import Explanation
from .schemas.words import Name, Project

router = a_router("jobs")


@router.get("/projects/{project}/jobs/{name}/explain", responses=declares(Explanation, 404))
def explain_job(project: Project, name: Name, request: Request) -> Response:
    """Why a job waits: a code, a sentence, what would help, and who holds what it could use. Or how it ended."""
    site, job = services(request), job_id(project, name)
    return answer(explanation(site, site.store.job(job), site.store.attempts(job)))


def explanation(site: Services, listed: Listed, attempts: list[Attempt]) -> Explanation:
    """What there is to say of a job now."""
    job, is_queued = listed.job, listed.job.state is JobState.QUEUED
    waits = job.waits if is_queued else None
    return {
        "name": split_job_id(job.id)[1],
        "state": str(listed.state),
        "code": waits.code if waits else "",
        "text": waits.text if waits else job.message or _nothing_said(job),
        "action": waits.action if waits else "",
        "held_by": _holders(site, job) if waits else [],
        "position": site.queue.position(job.id) if is_queued else None,
        "not_before": job.not_before or None if is_queued else None,
        "attempts": [
            {"number": attempt.number, "cause": str(attempt.cause), "detail": attempt.detail}
            for attempt in attempts
            if attempt.cause not in (None, Cause.COMPLETED)
        ],
    }


def _nothing_said(job: Job) -> str:
    return "it will be looked at in a moment" if job.state is JobState.QUEUED else ""


def _holders(site: Services, job: Job) -> list[str]:
    """The jobs on the nodes that could hold it."""
    world = site.store.world()
    free = Free.of(world)
    places = {int(n) for group in job.spec.groups for n in free.candidates(job.spec, group.machine)}
    return [holder for holder in free.names_on(places) if holder in world.jobs and holder != job.id]
