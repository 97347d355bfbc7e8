"""Submit what AI Platform has no word for: a plain command, and a rehearsal. A training job goes to `/v1/projects/…/jobs`."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import Request
from starlette.responses import Response

from stoker.api.dialects.aiplatform_v1.routes import submit
from stoker.api.errors import about
from stoker.api.labels import label_violations
from stoker.api.pools import in_thread
from stoker.api.services import TAKEN, Services, check_places, check_project, read_json, services, site_rules, user
from stoker.api.translation import SiteRules
from stoker.control.submission import Fields, Submission
from stoker.core.errors import BadSpec, TooLarge, Violation
from stoker.core.ids import JOB_NAME
from stoker.core.job import Request as SentRequest
from stoker.core.options import OPTIONS, Interval, with_options
from stoker.core.requirements import VERSION, problem_of
from stoker.core.spec import ANY_ACCELERATOR, Environment, Group, JobSpec, Limits, Machine, Program
from stoker.hardware.accelerators import find_accelerator
from stoker.store.base import Listed

from .answers import JSON, a_router, answer, declares, refused
from .asked import read_as, takes
from .describe import describe
from .schemas.jobs import JobDetails
from .schemas.requests import RUN_REQUEST, RunRequest
from .schemas.words import Project

router = a_router("jobs")
REHEARSAL = {
    "jobId": "rehearsal_1",
    "trainingInput": {
        "scaleTier": "BASIC",
        "region": "us-central1",
        "pythonModule": "trainer.task",
        "packageUris": ["gs://my-bucket/trainer-0.0.0.tar.gz"],
    },
}
_JOB: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The Job, as AI Platform v1 shows it.",
        "content": {JSON: {"schema": {"type": "object"}, "example": {**REHEARSAL, "state": "QUEUED"}}},
    }
}
LARGEST_RUN_BYTES = 1 << 20
"""Linux takes about 2 MiB of arguments and variables for a program; each single one may have 128 KiB (execve(2))."""

RUN = {"name": "train_3f2a", "command": ["python", "train.py"], "gpus": 1, "gpu_type": "T4"}


@router.post(
    "/projects/{project}/jobs:rehearse",
    responses={**_JOB, **refused(400, 409, 413, 415, 503)},
    openapi_extra=takes({"type": "object"}, REHEARSAL, "A Job of AI Platform v1."),
)
async def rehearse_job(project: Project, request: Request) -> Response:
    """Run a v1 Job on virtual nodes that are made for it, and go when it has ended.

    The body and the answer are those of AI Platform v1's `projects.jobs.create`. Every replica is a process of its own with
    the wiring of the real thing; accelerators are simulated.
    """
    body = await read_json(request)
    return answer(await in_thread(submit, services(request), project, body, user(request), rehearse=True))


@router.post(
    "/projects/{project}/jobs:run",
    responses=declares(JobDetails, 400, 409, 413, 415, 503),
    openapi_extra=takes(RUN_REQUEST.model_json_schema(), RUN, "The command, and what it needs."),
)
async def run_command(project: Project, request: Request) -> Response:
    """Run a plain command, in a copy of a folder if it has a `source`.

    When this has answered, the job is queued and survives any crash. Its name stays taken, also when it has ended.
    """
    body = await read_json(request)
    return answer(await in_thread(_run, services(request), project, body, user(request)))


def _run(site: Services, project: str, body: Any, owner: str) -> JobDetails:
    asked, spec = understood(site, project, body)
    with about("name", fix=TAKEN):
        job = site.commands.submit(
            Submission(
                project,
                asked.name,
                spec,
                request=SentRequest(dialect="native", body=asked.model_dump_json()),
                labels=asked.labels,
                owner=owner,
                rehearse=asked.rehearse,
                fields=fields_of(asked),
            )
        )
    return describe(site, Listed(n=0, job=job, attempt=None), [])


def understood(site: Services, project: str, body: Any) -> tuple[RunRequest, JobSpec]:
    """What is asked for. Raises BadSpec with everything that is wrong with it."""
    check_project(project)
    asked = _read(body)
    spec = _spec(asked, site.config["region"], site_rules(site))
    check_places(site.files, ("job_dir", asked.job_dir), source=(asked.source,))
    return asked, spec


def fields_of(asked: RunRequest) -> Fields:
    """The fields of the request that refusals are put on."""
    return Fields(shape="gpus" if asked.gpus else "vcpus", files="source", queue="queue")


def _read(body: Any) -> RunRequest:
    """The request, if it is one. Raises BadSpec with everything that is wrong with it."""
    asked = read_as(RUN_REQUEST, body)
    if len(asked.model_dump_json()) > LARGEST_RUN_BYTES:
        told = f"a command with its variables may have {LARGEST_RUN_BYTES >> 10} KiB"
        raise TooLarge(told, fix="put long lists into a file of the folder")
    violations = label_violations(asked.labels)
    violations += _read_intervals(asked)[1]
    if asked.python and not asked.python.startswith("/") and not VERSION.fullmatch(asked.python):
        violations.append(
            Violation("python", f"{asked.python[:80]!r} is neither a version such as 3.12 nor a whole path")
        )
    for number, line in enumerate(asked.requirements):
        if problem := problem_of(line):
            violations.append(Violation(f"requirements[{number}]", f"{line[:80]!r} {problem}"))
    if not JOB_NAME.fullmatch(asked.name):
        violations.append(Violation("name", f"{asked.name[:80]!r}: letters, digits, underscores; first a letter"))
    if violations:
        raise BadSpec(violations)
    return asked


def _spec(asked: RunRequest, region: str, site: SiteRules) -> JobSpec:
    machine = Machine(
        vcpus=asked.vcpus,
        memory_gb=asked.memory_gb,
        accelerator=_accelerator(asked),
        accelerator_milli=milli_of(asked.gpus),
    )
    counts: list[tuple[Literal["chief", "worker"], int]] = [("chief", 1), ("worker", asked.workers)]
    spec = JobSpec(
        program=Program(
            source=asked.source,
            command=tuple(asked.command),
            env=asked.env,
            environment=Environment(python=asked.python, requirements=tuple(asked.requirements)),
        ),
        groups=tuple(Group(role=role, count=count, machine=machine) for role, count in counts if count),
        region=region,
        job_dir=asked.job_dir,
        limits=Limits(
            running_seconds=asked.max_running_seconds,
            grace_seconds=site.grace_seconds,
            hang_seconds=site.hang_seconds,
        ),
    )
    return with_options(spec, asked.options | _read_intervals(asked)[0])


def _read_intervals(asked: RunRequest) -> tuple[dict[str, str], list[Violation]]:
    """The options that say how often, which no schema can check; and what is wrong with them."""
    found: dict[str, str] = {}
    violations = []
    for option in OPTIONS:
        if isinstance(option.kind, Interval):
            try:
                found[option.name] = option.kind.read(asked.options[option.name])
            except ValueError as error:
                violations.append(Violation(option.name, str(error)))
    return found, violations


def _accelerator(asked: RunRequest) -> str:
    if not asked.gpus:
        if asked.gpu_type:
            problem = f"{asked.gpu_type[:80]} is named, but no GPUs are asked for; say how many, such as gpus 1"
            raise BadSpec([Violation("gpu_type", problem)])
        return ""
    if not asked.gpu_type:
        return "NVIDIA_TESLA_T4" if asked.rehearse else ANY_ACCELERATOR
    choices, unknown = [], []
    for text in asked.gpu_type.replace("|", ",").strip(",").split(","):
        found = find_accelerator(text)
        if found is None:
            unknown.append(
                Violation("gpu_type", f"{text[:80]!r} is not an accelerator; stoker accelerators lists them")
            )
        else:
            choices.append(found.name)
    if unknown:
        raise BadSpec(unknown)
    return "|".join(dict.fromkeys(choices))


def milli_of(gpus: float) -> int:
    """Thousandths of GPUs: a share of one, or whole ones. Raises BadSpec with the nearest that there could be."""
    milli = max(1, round(gpus * 1000)) if gpus else 0
    if gpus > 1 and milli % 1000:
        problem = f"{gpus:g}: more than one GPU are whole GPUs; the nearest are {int(gpus)} and {int(gpus) + 1}"
        raise BadSpec([Violation("gpus", problem)])
    if abs(gpus * 1000 - milli) > 1e-6:
        problem = f"{gpus:g}: a share has three digits after the point at most; the nearest is {milli / 1000:g}"
        raise BadSpec([Violation("gpus", problem)])
    return milli
