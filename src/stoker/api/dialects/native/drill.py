"""What a drill needs: a job run again as a rehearsal, and interrupted on purpose."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Request
from starlette.responses import Response

from stoker.api.errors import about
from stoker.api.services import TAKEN, check_places, services, user
from stoker.control.submission import Submission
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import JOB_NAME, job_id
from stoker.core.job import Request as SentRequest
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec
from stoker.store.base import Listed

from .answers import a_router, answer, declares
from .describe import describe
from .running import running
from .schemas.drill import Interrupted
from .schemas.jobs import JobDetails
from .schemas.words import Name, Project, asks

router = a_router("jobs")

SEED = "STOKER_SEED"
"""What chance begins with where a program is distributed; without it the job's id (frameworks/processes/cluster.py)."""


@router.post("/projects/{project}/jobs/{name}:rehearse", responses=declares(JobDetails, 400, 404, 409, 503))
def rehearse_again(
    project: Project,
    name: Name,
    request: Request,
    copy: Annotated[str, asks("The name of the rehearsal.", "training_drill_1")],
    job_dir: Annotated[str, asks("Its job directory; empty: none.", "gs://bucket/drill/1")] = "",
) -> Response:
    """Run the program of a job again, on virtual nodes and under another name, with a job directory of its own.

    The job itself may run, wait or have ended.
    """
    site, job = services(request), job_id(project, name)
    spec = site.store.job(job).job.spec
    if not JOB_NAME.fullmatch(copy):
        raise BadSpec([Violation("copy", f"{copy[:80]!r}: letters, digits, underscores; first a letter")])
    check_places(site.files, ("job_dir", job_dir), source=(spec.program.source,))
    with about("copy", fix=TAKEN):
        row = site.commands.submit(
            Submission(
                project,
                copy,
                _pretended(spec, job, job_dir),
                request=SentRequest(dialect="native", body=json.dumps({"again": job})),
                labels={},
                owner=user(request),
                rehearse=True,
            )
        )
    return answer(describe(site, Listed(n=0, job=row, attempt=None), []))


@router.post("/projects/{project}/jobs/{name}:interrupt", responses=declares(Interrupted, 400, 404, 409, 503))
def interrupt(
    project: Project,
    name: Name,
    request: Request,
    signal: Annotated[Literal["TERM", "KILL"], asks("Which signal its processes get.", "KILL")],
    replica: Annotated[str, asks("Which replica; empty: all.", "worker-0")] = "",
) -> Response:
    """Send a signal to the program of a running job, as if its machine went away: what follows is what follows then.

    409 if it does not run.
    """
    site, job = services(request), job_id(project, name)
    attempt, names, engine = running(site, job)
    if replica and replica not in names:
        raise BadSpec([Violation("replica", f"{replica[:80]!r} is none that runs; there are {', '.join(names[:9])}")])
    meant = [replica] if replica else names
    number = f"{int(time.time())}-{secrets.token_hex(3)}"
    engine.ask(attempt.id, {"id": number, "signal": signal, "replicas": meant})
    found: Interrupted = {"at": site.commands.clock.now(), "replicas": meant}
    return answer(found)


def _pretended(spec: JobSpec, job: str, job_dir: str) -> JobSpec:
    """The same, for virtual nodes, whose accelerators have to be of some type. What it draws by chance, it draws as the job."""
    program = replace(spec.program, env={SEED: job, **spec.program.env})
    return replace(spec, program=program, job_dir=job_dir, pool="", groups=tuple(map(_of_one_type, spec.groups)))


def _of_one_type(group: Group) -> Group:
    machine = group.machine
    kind = "NVIDIA_TESLA_T4" if machine.accelerator == ANY_ACCELERATOR else machine.accelerator.partition("|")[0]
    return replace(group, machine=replace(machine, accelerator=kind))
