"""Look before the leap: what would come of a job if it were submitted now. Nothing is written."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Request
from starlette.responses import Response

from stoker.api.dialects.aiplatform_v1.routes import understood as understood_v1
from stoker.api.errors import about
from stoker.api.pools import in_thread
from stoker.api.services import TAKEN, Services, read_json, services, user
from stoker.control.submission import Submission
from stoker.core.ids import split_job_id
from stoker.core.job import Job
from stoker.core.job import Request as SentRequest
from stoker.core.node import Node
from stoker.core.spec import JobSpec
from stoker.insight.outlook import Outlook, Runs, Start

from .answers import a_router, answer, declares
from .asked import takes
from .describe import machines
from .metrics import cost_of
from .outlook import NOTHING, lasts_row, place_rows, starts_row, what_if_rows
from .schemas.outlook import Cost, DryRun
from .schemas.requests import RUN_REQUEST
from .schemas.words import Project, asks
from .submit import REHEARSAL, RUN, fields_of, understood

router = a_router("jobs")
_SECONDS_IN_HOUR = 3600.0
_OUTLOOK = (
    "With when it would start; without, it is only checked whether it would be refused, which costs next to nothing."
)


@router.post(
    "/projects/{project}/jobs:dryRun",
    responses=declares(DryRun, 400, 409, 413, 415, 503),
    openapi_extra=takes({"type": "object"}, REHEARSAL, "A Job of AI Platform v1."),
)
async def dry_run_job(
    project: Project,
    request: Request,
    rehearse: Annotated[bool, asks("As if it were to run on virtual nodes made for it.", False)] = False,
    uploads: Annotated[
        str,
        asks("Package URIs, comma-separated, that would be uploaded first: they may be missing.", "gs://b/t.tar.gz"),
    ] = "",
    outlook: Annotated[bool, asks(_OUTLOOK, True)] = True,
) -> Response:
    """Where and when a v1 Job would start, what it would cost, and what would start it sooner. Nothing is written.

    Refused with the errors with which its submission would be refused.
    """
    site, body, owner = services(request), await read_json(request), user(request)
    coming = frozenset(uploads.split(",")) if uploads else frozenset[str]()
    return answer(await in_thread(_dry_run_v1, site, project, body, owner, rehearse, coming, outlook))


@router.post(
    "/projects/{project}/jobs:dryRunCommand",
    responses=declares(DryRun, 400, 409, 413, 415, 503),
    openapi_extra=takes(RUN_REQUEST.model_json_schema(), RUN, "The command, and what it needs."),
)
async def dry_run_command(
    project: Project, request: Request, outlook: Annotated[bool, asks(_OUTLOOK, True)] = True
) -> Response:
    """Where and when a plain command would start, what it would cost, and what would start it sooner. Nothing is written."""
    site, body, owner = services(request), await read_json(request), user(request)
    return answer(await in_thread(_dry_run_command, site, project, body, owner, outlook))


def _dry_run_v1(
    site: Services, project: str, body: Any, owner: str, rehearse: bool, uploads: frozenset[str], outlook: bool
) -> DryRun:
    asked = understood_v1(site, project, body)
    with about("job.job_id", fix=TAKEN):
        job, nodes = site.commands.would_submit(
            Submission(
                project,
                asked.name,
                asked.spec,
                request=asked.request,
                labels=asked.labels,
                owner=owner,
                rehearse=rehearse,
            ),
            uploads=uploads,
        )
        site.commands.check_name(job.id)
    return _shown(site, job, nodes, outlook)


def _dry_run_command(site: Services, project: str, body: Any, owner: str, outlook: bool) -> DryRun:
    asked, spec = understood(site, project, body)
    with about("name", fix=TAKEN):
        job, nodes = site.commands.would_submit(
            Submission(
                project,
                asked.name,
                spec,
                request=SentRequest(dialect="native", body="{}"),
                labels=asked.labels,
                owner=owner,
                rehearse=asked.rehearse,
                fields=fields_of(asked),
            )
        )
        site.commands.check_name(job.id)
    return _shown(site, job, nodes, outlook)


def _shown(site: Services, job: Job, nodes: list[Node], outlook: bool) -> DryRun:
    found = (site.outlooks.of_new(job, tuple(nodes)) if outlook else None) or NOTHING
    project, name = split_job_id(job.id)
    start = found.start
    return {
        "name": name,
        "project": project,
        "queue": job.spec.queue,
        "region": job.spec.region,
        "priority": job.spec.priority,
        "preemptible": job.spec.preemptible,
        "rehearsal": job.spec.pool != "",
        "machines": [machines(group) for group in job.spec.groups],
        "is_free": start is not None and start.is_by(found.at),
        "reason": _why(found, start),
        "places": place_rows(start.placements) if start else [],
        "ahead": list(found.ahead),
        "starts": starts_row(start),
        "lasts": lasts_row(found.runs),
        "limit_seconds": job.spec.limits.running_seconds,
        "cost": cost_row(job.spec, found.runs),
        "what_if": what_if_rows(found),
    }


def _why(found: Outlook, start: Start | None) -> str:
    if start is None:
        return "too many ask just now; ask again"
    return found.reason.text if found.reason and not start.is_by(found.at) else ""


def cost_row(spec: JobSpec, runs: Runs | None) -> Cost:
    """What the machines cost by the hour, and in all."""
    hourly, as_of, notes = cost_of(spec, 1.0)

    def total(seconds: float | None) -> float | None:
        return None if hourly is None or seconds is None else round(hourly * seconds / _SECONDS_IN_HOUR, 6)

    lasts = runs.seconds if runs is not None and runs.known_runs else None
    return {
        "usd_per_hour": hourly,
        "low_usd": total(lasts.low) if lasts else None,
        "middle_usd": total(lasts.middle) if lasts else None,
        "high_usd": total(lasts.high) if lasts else None,
        "at_most_usd": total(spec.limits.running_seconds),
        "price_as_of": as_of,
        "notes": notes,
    }
