"""Why a job waits, when it will likely start or end, and how it ended."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.core.ids import job_id, split_job_id
from stoker.core.job import Attempt, Job, Reason
from stoker.core.states import FINAL_JOB_STATES, Cause, JobState
from stoker.store.base import Listed

from .answers import a_router, answer, declares
from .diagnosis import newest_diagnosis
from .outlook import NOTHING, holder_row, lasts_row, moments, quota_row, starts_row, what_if_rows
from .schemas.outlook import Explanation
from .schemas.words import Name, Project

router = a_router("jobs")


@router.get("/projects/{project}/jobs/{name}/explain", responses=declares(Explanation, 404))
def explain_job(project: Project, name: Name, request: Request) -> Response:
    """Why a job waits and when it will likely start; since when it runs and when it will likely end; or how it ended.

    Decided now by the scheduler itself, not read from what was written. How estimates come about: docs/explain.md.
    """
    site, job = services(request), job_id(project, name)
    return answer(explanation(site, site.store.job(job), site.store.attempts(job)))


def explanation(site: Services, listed: Listed, attempts: list[Attempt]) -> Explanation:
    """What there is to say of a job now."""
    job, now = listed.job, site.commands.clock.now()
    found = (site.outlooks.of(job.id) if job.state not in FINAL_JOB_STATES else None) or NOTHING
    is_queued = job.state is JobState.QUEUED
    waits = (job.waits if found is NOTHING else found.reason) if is_queued else None
    return {
        "name": split_job_id(job.id)[1],
        "state": str(listed.state),
        "code": waits.code if waits else "",
        "text": waits.text if waits else job.message or _nothing_said(job, waits, is_known=found is not NOTHING),
        "action": waits.action if waits else "",
        "held_by": [holder.job for holder in found.holders],
        "position": site.queue.position(job.id) if is_queued else None,
        "not_before": job.not_before or None if is_queued else None,
        "attempts": [
            {"number": attempt.number, "cause": str(attempt.cause), "detail": attempt.detail}
            for attempt in attempts
            if attempt.cause not in (None, Cause.COMPLETED)
        ],
        "diagnosis": newest_diagnosis(job, attempts),
        "preemptions": job.preemptions,
        "queue": job.spec.queue,
        "submitted_at": job.submitted_at,
        "running_since": next((a.placed_at for a in attempts if a.ended_at is None), None),
        "ended_at": job.ended_at,
        "as_of": now if found is NOTHING else found.at,
        "story_position": None if found is NOTHING else found.position,
        "ahead": list(found.ahead),
        "holders": [holder_row(holder) for holder in found.holders],
        "quota": quota_row(found.quota),
        "starts": starts_row(found.start) if is_queued else None,
        "what_if": what_if_rows(found) if is_queued else [],
        "lasts": lasts_row(found.runs),
        "ends": moments(found.ends) if found.ends else None,
    }


def _nothing_said(job: Job, waits: Reason | None, *, is_known: bool) -> str:
    if job.state is not JobState.QUEUED or waits is not None:
        return ""
    return "what it needs is free: it gets it now" if is_known else "it will be looked at in a moment"
