"""AI Platform v1 over HTTP: jobs.create, get, list, cancel, patch (contract, section 1)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from stoker.api.services import Services, read_json, services, user
from stoker.core.errors import BadSpec, NotFound, Unimplemented, Violation
from stoker.core.ids import PROJECT_NAME, job_id

from .jobs import SiteRules, answer, label_violations, read_job, revision_of
from .messages import JOB

LARGEST_PAGE = 100

router = APIRouter(prefix="/v1/projects/{project}")


def site_rules(site: Services) -> SiteRules:
    """What this site's settings add to the rules."""
    return SiteRules(
        runtime_versions=frozenset(site.config["runtimes"]),
        strict_runtimes=site.config["strict_runtimes"],
        grace_seconds=site.config["grace_seconds"],
    )


@router.post("/jobs")
async def create(project: str, request: Request) -> Any:
    """jobs.create."""
    body = await read_json(request)
    return await run_in_threadpool(submit, services(request), project, body, user(request))


def submit(site: Services, project: str, body: Any, owner: str, *, rehearse: bool = False) -> dict[str, Any]:
    """Understand a Job body, submit it, and show it as it is now."""
    check_project(project)
    asked = read_job(body, site_rules(site))
    job = site.commands.submit(
        project,
        asked.name,
        asked.spec,
        request=asked.request,
        labels=asked.labels,
        owner=owner,
        rehearse=rehearse,
    )
    return answer(site.store.job(job.id))


@router.get("/jobs/{name}")
def get(project: str, name: str, request: Request) -> Any:
    """jobs.get."""
    return answer(services(request).store.job(job_id(project, name)))


@router.get("/jobs")
def list_jobs(project: str, request: Request, pageSize: str = "20", pageToken: str = "", filter: str = "") -> Any:
    """jobs.list, newest first."""
    check_project(project)
    if filter:
        raise Unimplemented("filters of jobs.list are not served by this Stoker yet")
    size, before = _page(pageSize, pageToken)
    found = services(request).store.jobs(project, before=before, limit=size + 1)
    shown: dict[str, Any] = {}
    if found:
        shown["jobs"] = [answer(listed) for listed in found[:size]]
    if len(found) > size:
        shown["nextPageToken"] = str(found[size - 1].n)
    return shown


@router.post("/jobs/{verb}")
async def cancel(project: str, verb: str, request: Request) -> Any:
    """jobs.cancel. Of no effect on a job that has ended."""
    name, _, action = verb.partition(":")
    if action != "cancel":
        raise NotFound(f"no method {verb!r} of jobs")
    body = await read_json(request)
    if body != {}:
        raise BadSpec([Violation("body", "jobs.cancel takes an empty body, {}")])
    await run_in_threadpool(services(request).commands.cancel, job_id(project, name), owner=user(request))
    return {}


@router.patch("/jobs/{name}")
async def patch(project: str, name: str, request: Request, updateMask: str = "") -> Any:
    """jobs.patch: labels, guarded by an etag if the mask has one."""
    body = await read_json(request)
    violations: list[Violation] = []
    read = JOB.read(body, "job", violations)
    mask = [part.strip() for part in updateMask.split(",") if part.strip()]
    if not mask or not set(mask) <= {"labels", "etag"}:
        violations.append(Violation("update_mask", "only labels and etag can be changed: updateMask=labels"))
    labels: dict[str, str] = read.get("labels", {})
    violations += label_violations(labels)
    if violations:
        raise BadSpec(violations)
    site, job = services(request), job_id(project, name)
    revision = revision_of(read.get("etag", "")) if "etag" in mask else None
    if "labels" not in mask:
        labels = dict((await run_in_threadpool(site.store.job, job)).job.labels)
    relabelled = await run_in_threadpool(site.commands.relabel, job, labels, owner=user(request), if_revision=revision)
    return answer(relabelled)


def check_project(project: str) -> None:
    """Raise BadSpec for what cannot be a project's id."""
    if not PROJECT_NAME.fullmatch(project):
        raise BadSpec([Violation("parent", f"{project[:80]!r} cannot be a project's id")])


def _page(size: str, token: str) -> tuple[int, int | None]:
    if not size.isdigit():
        raise BadSpec([Violation("page_size", f"{size[:20]!r} is not a number")])
    if token and not token.isdigit():
        raise BadSpec([Violation("page_token", "not a token that this server gave")])
    return min(int(size) or 20, LARGEST_PAGE), int(token) if token else None
