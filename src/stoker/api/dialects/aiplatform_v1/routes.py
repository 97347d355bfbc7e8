"""AI Platform v1 over HTTP: jobs.create, get, list, cancel, patch (contract, section 1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from stoker.api.errors import about
from stoker.api.field_mask import partial
from stoker.api.services import Services, read_json, services, user
from stoker.core.errors import BadSpec, NotFound, Unimplemented, Violation
from stoker.core.ids import PROJECT_NAME, job_id
from stoker.store.files import Files

from .jobs import SiteRules, answer, label_violations, read_job, revision_of
from .messages import JOB

LARGEST_PAGE = 100
TAKEN = "choose another name: that of a job stays taken, also when it has ended"

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
    return _shown(request, await run_in_threadpool(submit, services(request), project, body, user(request)))


def submit(site: Services, project: str, body: Any, owner: str, *, rehearse: bool = False) -> dict[str, Any]:
    """Understand a Job body, submit it, and show it as it is now."""
    check_project(project)
    asked = read_job(body, site_rules(site))
    check_places(site.files, package_uris=asked.spec.program.packages, job_dir=(asked.spec.job_dir,))
    with about("job.job_id", fix=TAKEN):
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
    _refuse_iam(name)
    with about("name"):
        return _shown(request, answer(services(request).store.job(job_id(project, name))))


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
    return _shown(request, shown)


@router.post("/jobs/{verb}")
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
    with about("name"):
        if "labels" not in mask:
            labels = dict((await run_in_threadpool(site.store.job, job)).job.labels)
        relabel = site.commands.relabel
        changed = await run_in_threadpool(relabel, job, labels, owner=user(request), if_revision=revision)
    return _shown(request, answer(changed))


def check_project(project: str) -> None:
    """Raise BadSpec for what cannot be a project's id."""
    if not PROJECT_NAME.fullmatch(project):
        raise BadSpec([Violation("parent", f"{project[:80]!r} cannot be a project's id")])


def check_places(files: Files, **fields: Sequence[str]) -> None:
    """Raise BadSpec for what leads nowhere, or out of its bucket: at submission, not when the job starts."""
    violations: list[Violation] = []
    for field, uris in fields.items():
        for uri in filter(None, uris):
            try:
                files.place(uri)
            except BadSpec as error:
                violations += [Violation(field, found.description) for found in error.violations]
    if violations:
        raise BadSpec(violations)


def _shown(request: Request, answer: dict[str, Any]) -> Any:
    """The answer, or the part of it that was asked for."""
    return partial(answer, request.query_params.get("fields"))


def _refuse_iam(verb: str) -> None:
    """In the contract, but there are no policies here: one token opens everything."""
    if verb.rpartition(":")[2] in ("getIamPolicy", "setIamPolicy", "testIamPermissions"):
        raise Unimplemented("this Stoker has no IAM policies")


def _page(size: str, token: str) -> tuple[int, int | None]:
    if not re.fullmatch("[0-9]{1,9}", size):
        raise BadSpec([Violation("page_size", f"{size[:20]!r} is not a number")])
    if token and not re.fullmatch("[0-9]{1,18}", token):
        raise BadSpec([Violation("page_token", "not a token that this server gave")])
    return min(int(size) or 20, LARGEST_PAGE), int(token) if token else None
