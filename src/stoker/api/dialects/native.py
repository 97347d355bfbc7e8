"""Stoker's own API: what the CLI and the console need beyond AI Platform's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import contextmanager_in_threadpool
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from stoker import __version__
from stoker.api.download import file_response
from stoker.api.errors import about
from stoker.api.services import Services, read_json, services, user
from stoker.api.stream import describe, follow, shown, state_event
from stoker.core.errors import BadSpec, NotFound, TooLarge, Violation
from stoker.core.ids import JOB_NAME, job_id, split_job_id
from stoker.core.job import Request as SentRequest
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec, Limits, Machine, Program
from stoker.hardware.accelerators import find_accelerator
from stoker.scheduling.free import Free
from stoker.store.base import Listed

from .aiplatform_v1.jobs import label_violations
from .aiplatform_v1.routes import TAKEN, check_places, check_project, submit

LARGEST_FILE_BYTES = 64 << 30
_POSITION = Query(ge=0, le=1 << 62)

router = APIRouter(prefix="/stoker/v1")


Text = Annotated[str, Field(pattern="^[^\\x00]*$")]
"""What a program can be handed."""


class RunRequest(BaseModel):
    """A plain command to run in a copy of the user's folder (`stoker run`)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    command: Annotated[list[Text], Field(min_length=1, max_length=10_000)]
    source: str = ""
    env: dict[Annotated[str, Field(pattern="^[^=\\x00]+$")], Text] = {}
    labels: dict[str, str] = {}
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    gpu_type: str = ""
    workers: Annotated[int, Field(ge=0, le=10_000)] = 0
    vcpus: Annotated[float, Field(gt=0, le=1024)] = 1.0
    memory_gb: Annotated[float, Field(ge=0, le=65536)] = 0.0
    job_dir: str = ""
    priority: Annotated[int, Field(ge=0, le=1000)] = 0
    max_running_seconds: Annotated[float, Field(gt=0, lt=1e12)] = 604800.0
    rehearse: bool = False


@router.get("/status")
def status(request: Request) -> Any:
    """What this server is and has."""
    site = services(request)
    world = site.store.world()
    return {
        "version": __version__,
        "home": str(site.config.home),
        "engines": list(site.engines),
        "nodes": len(world.nodes),
        "jobs": {"live": len(world.jobs), "running": len(world.attempts)},
        "hold": site.config["hold"],
        "buckets": _buckets(site),
    }


def _buckets(site: Services) -> str:
    place = site.files.place("gs://some-bucket/x").path
    return f"gs://BUCKET is {place.parent.parent}/BUCKET" if place else "gs:// is Google Cloud Storage"


@router.post("/shutdown")
def shutdown(request: Request) -> Any:
    """End the server. Jobs that run go on, and are found again by the next server."""
    site = services(request)
    running = [split_job_id(attempt.job)[1] for attempt in site.store.world().attempts.values()]
    site.shut_down()
    return {"running": running}


@router.get("/nodes")
def nodes(request: Request) -> Any:
    """The nodes, with what is free on them."""
    world = services(request).store.world()
    free = Free.of(world).spaces
    return {
        "nodes": [
            {
                "name": node.name,
                "engine": node.engine,
                "state": str(node.state),
                "region": node.region,
                "zone": node.zone,
                "machine_type": node.machine,
                "virtual": node.virtual,
                "accelerator": node.accelerator,
                "accelerators": len(node.devices),
                "accelerators_free": len(free[node.name].devices) if node.name in free else 0,
                "vcpus": node.vcpus,
                "memory_gb": node.memory_gb,
                "soft": node.soft,
                "jobs": sorted(split_job_id(j)[1] for j in free[node.name].holders) if node.name in free else [],
            }
            for node in sorted(world.nodes.values(), key=lambda n: (n.virtual, n.name))
        ]
    }


@router.get("/jobs")
def live_jobs(request: Request) -> Any:
    """What waits or runs, of every project."""
    jobs = services(request).store.world().jobs.values()
    ids = [split_job_id(job.id) for job in sorted(jobs, key=lambda job: job.submitted_at)]
    return {"jobs": [{"project": project, "name": name} for project, name in ids]}


@router.post("/projects/{project}/jobs:rehearse")
async def rehearse(project: str, request: Request) -> Any:
    """Run a v1 Job on virtual nodes that are made for it, and go when it has ended."""
    body = await read_json(request)
    return await run_in_threadpool(submit, services(request), project, body, user(request), rehearse=True)


@router.post("/projects/{project}/jobs:run")
async def run(project: str, request: Request) -> Any:
    """Run a plain command."""
    body = await read_json(request)
    return await run_in_threadpool(_run, services(request), project, body, user(request))


def _run(site: Services, project: str, body: Any, owner: str) -> Any:
    check_project(project)
    try:
        asked = RunRequest.model_validate(body)
    except ValidationError as error:
        raise BadSpec([Violation(".".join(map(str, e["loc"])) or "body", e["msg"]) for e in error.errors()]) from None
    violations = label_violations(asked.labels)
    if not JOB_NAME.fullmatch(asked.name):
        violations.append(Violation("name", f"{asked.name[:80]!r}: letters, digits, underscores; first a letter"))
    if violations:
        raise BadSpec(violations)
    spec = _run_spec(asked, site.config["region"], site.config["grace_seconds"])
    check_places(site.files, source=(asked.source,), job_dir=(asked.job_dir,))
    with about("name", fix=TAKEN):
        job = site.commands.submit(
            project,
            asked.name,
            spec,
            request=SentRequest(dialect="native", body=asked.model_dump_json()),
            labels=asked.labels,
            owner=owner,
            rehearse=asked.rehearse,
            shape_field="gpus" if asked.gpus else "vcpus",
        )
    return describe(site, Listed(n=0, job=job, attempt=None), [])


def _run_spec(asked: RunRequest, region: str, grace_seconds: float) -> JobSpec:
    machine = Machine(
        vcpus=asked.vcpus,
        memory_gb=asked.memory_gb,
        accelerator=_accelerator(asked),
        accelerator_milli=1000 * asked.gpus,
    )
    counts: list[tuple[Literal["chief", "worker"], int]] = [("chief", 1), ("worker", asked.workers)]
    return JobSpec(
        program=Program(source=asked.source, command=tuple(asked.command), env=asked.env),
        groups=tuple(Group(role=role, count=count, machine=machine) for role, count in counts if count),
        region=region,
        job_dir=asked.job_dir,
        priority=asked.priority,
        limits=Limits(running_seconds=asked.max_running_seconds, grace_seconds=grace_seconds),
    )


def _accelerator(asked: RunRequest) -> str:
    if not asked.gpus:
        return ""
    if not asked.gpu_type:
        return "NVIDIA_TESLA_T4" if asked.rehearse else ANY_ACCELERATOR
    found = find_accelerator(asked.gpu_type)
    if found is None:
        problem = f"{asked.gpu_type[:80]!r} is no accelerator; stoker accelerators lists them"
        raise BadSpec([Violation("gpu_type", problem)])
    return found.name


@router.get("/projects/{project}/jobs")
def list_jobs(project: str, request: Request, limit: int = 20, before: Annotated[int, _POSITION] = 1 << 62) -> Any:
    """Jobs, newest first, with why they wait."""
    limit = max(1, min(limit, 1000))
    found = services(request).store.jobs(project, before=before, limit=limit)
    return {
        "jobs": [
            {
                "name": split_job_id(listed.job.id)[1],
                "owner": listed.job.owner,
                "state": shown(listed),
                "accelerators": sum(g.count * g.machine.accelerators for g in listed.job.spec.groups),
                "replicas": listed.job.spec.replicas,
                "submitted_at": listed.job.submitted_at,
                "started_at": listed.job.started_at,
                "ended_at": listed.job.ended_at,
                "reason": state_event(listed).get("reason"),
                "message": listed.job.message,
                "rehearsal": listed.job.spec.pool != "",
            }
            for listed in found
        ],
        "next": found[-1].n if len(found) == limit else None,
    }


@router.get("/projects/{project}/jobs/{name}")
def get(project: str, name: str, request: Request) -> Any:
    """One job in full."""
    site, job = services(request), job_id(project, name)
    return describe(site, site.store.job(job), site.store.attempts(job))


@router.get("/projects/{project}/jobs/{name}/stream")
async def stream(
    project: str,
    name: str,
    request: Request,
    logs: bool = True,
    offset: Annotated[int, _POSITION] = 0,
    follow_to_end: bool = True,
) -> Response:
    """What happens to a job, as JSON lines; see api/stream.py."""
    site, job = services(request), job_id(project, name)
    await run_in_threadpool(site.store.job, job)
    events = follow(site, job, logs=logs, offset=offset, to_end=follow_to_end)
    return StreamingResponse(events, media_type="application/x-ndjson")


@router.get("/projects/{project}/jobs/{name}/story")
def story(project: str, name: str, request: Request) -> Any:
    """All that happened to a job, in order."""
    store = services(request).store
    store.job(job_id(project, name))
    return {
        "story": [
            {"n": line.n, "at": line.at, "by": line.by, "what": type(line.change).__name__, "text": str(line.change)}
            for line in store.story(job_id(project, name))
        ]
    }


@router.put("/files/{scheme}/{bucket}/{name:path}")
async def upload(scheme: str, bucket: str, name: str, request: Request) -> Any:
    """Write a file of a bucket. It appears whole or not at all, also when the client goes away in the middle."""
    site, uri, size = services(request), _file_uri(scheme, bucket, name), 0
    async with contextmanager_in_threadpool(site.files.write(uri)) as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST_FILE_BYTES:
                raise TooLarge(f"a file may have {LARGEST_FILE_BYTES >> 30} GiB")
            await run_in_threadpool(file.write, chunk)
    return {"uri": uri, "size": size}


@router.get("/files/{scheme}/{bucket}/{name:path}")
def download(scheme: str, bucket: str, name: str, request: Request) -> Response:
    """Read a file of a bucket."""
    return file_response(services(request), _file_uri(scheme, bucket, name))


@router.head("/files/{scheme}/{bucket}/{name:path}")
def exists(scheme: str, bucket: str, name: str, request: Request) -> Response:
    """Whether a file is there."""
    uri = _file_uri(scheme, bucket, name)
    if not services(request).files.exists(uri):
        raise NotFound(f"no file {uri}")
    return Response(status_code=200)


def _file_uri(scheme: str, bucket: str, name: str) -> str:
    """The URI of a file. A bucket itself, or a folder, is none: written, it would stand in the way of everything below it."""
    if not name or name.endswith("/"):
        raise BadSpec([Violation("name", f"{name[-80:]!r} is not the name of a file below its bucket")])
    return f"{scheme}://{bucket}/{name}"
