"""AI Platform v1 over HTTP: jobs.create, get, list, cancel, patch (contract, section 1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from stoker.api.errors import about
from stoker.api.field_mask import partial, read_mask
from stoker.api.services import Services, read_json, services, user
from stoker.core.errors import BadSpec, NotFound, Unimplemented, Violation
from stoker.core.ids import PROJECT_NAME, job_id
from stoker.store.base import Listed
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
async def create(project: str, request: Request, fields: str = "") -> Any:
    """jobs.create."""
    mask, body = read_mask(fields), await read_json(request)
    return partial(await run_in_threadpool(submit, services(request), project, body, user(request)), mask)


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
    return answer(Listed(n=0, job=job, attempt=None))


@router.get("/jobs/{name}")
def get(project: str, name: str, request: Request, fields: str = "") -> Any:
    """jobs.get."""
    _refuse_iam(name)
    with about("name"):
        return partial(answer(services(request).store.job(job_id(project, name))), read_mask(fields))


@router.get("/jobs")
def list_jobs(
    project: str, request: Request, pageSize: str = "20", pageToken: str = "", filter: str = "", fields: str = ""
) -> Any:
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
    return partial(shown, read_mask(fields))


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
async def patch(project: str, name: str, request: Request, updateMask: str = "", fields: str = "") -> Any:
    """jobs.patch: labels, guarded by an etag if the mask has one."""
    mask = read_mask(fields)
    labels, revision = _read_patch(await read_json(request), updateMask)
    with about("name"):
        job = job_id(project, name)
        changed = await run_in_threadpool(_relabel, services(request), job, labels, revision, user(request))
    return partial(answer(changed), mask)


def _read_patch(body: Any, update_mask: str) -> tuple[dict[str, str] | None, int | None]:
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
    return labels if "labels" in mask else None, revision_of(read.get("etag", "")) if "etag" in mask else None


def _relabel(site: Services, job: str, labels: dict[str, str] | None, revision: int | None, owner: str) -> Listed:
    kept = site.store.job(job).job.labels if labels is None else labels
    return site.commands.relabel(job, kept, owner=owner, if_revision=revision)


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
