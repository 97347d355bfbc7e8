"""How a job trains: its steps, and what is wrong with them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.core.ids import job_id, split_job_id
from stoker.core.job import PROBE, Job
from stoker.core.spec import Group, JobSpec, Machine, Program
from stoker.insight.findings.evidence import Evidence
from stoker.insight.findings.rules import findings
from stoker.insight.training_steps import (
    Progress,
    Saves,
    Window,
    per_second,
    progress_of,
    saves_of,
    series,
    share,
    speed_up,
    step_seconds,
)
from stoker.store.logs import STEPS

from .answers import a_router, answer, declares
from .findings import told
from .schemas.steps import Point, ReplicaSteps, Scaling, Training
from .schemas.words import Name, Project, asks

LARGEST = 1000
_OF_THE_HARDWARE = (
    "STOKER_DISTRIBUTE",
    "STOKER_CHECKPOINTS",
)  # other on one device than on several, and no other program
_MOST_JOBS = 300  # the newest of a project, among which probes are looked for

router = a_router("jobs")


@router.get("/projects/{project}/jobs/{name}/steps", responses=declares(Training, 400, 404))
def get_steps(
    project: Project,
    name: Name,
    request: Request,
    attempt: Annotated[int, asks("Which attempt; 0: the newest that has told of steps.", 2, ge=0, le=1 << 31)] = 0,
    points: Annotated[int, asks("At most so many points of each series; 2 to 1000.", 120)] = 120,
) -> Response:
    """How the programs of a job train: rates, what they wait for, the values that they report, and who is slow.

    It is what frameworks' hooks have seen, and what programs tell by `stoker.step()` and `stoker.report()`.
    """
    site, job = services(request), job_id(project, name)
    listed = site.store.job(job)
    number, training, saves = training_of(site, job, attempt)
    found: Training = {
        "attempt": number,
        "way": next((p.way for p in training if p.way), ""),
        "replicas_in_step": max((p.in_step for p in training if p.way), default=None),
        "replicas": [_replica(progress, max(2, min(points, LARGEST))) for progress in training],
        "scaling": scaling(site, listed.job, training),
        "saves": {
            "step": saves.step,
            "at": saves.at,
            "seconds": saves.seconds,
            "stall_seconds": saves.stall_seconds,
            "bytes": saves.bytes,
            "count": saves.count,
            "resumed_step": saves.resumed_step,
            "went_on_at": saves.went_on_at,
        },
        "findings": [told(finding) for finding in findings(Evidence(training=training))],
    }
    return answer(found)


def scaling(site: Services, job: Job, training: list[Progress]) -> Scaling | None:
    """How much quicker a job is than a probe of the same program on less of the same hardware, if there was one."""
    devices = _devices(job.spec)
    if not training or devices < 2:
        return None
    found: Scaling | None = None
    for listed in site.store.jobs(split_job_id(job.id)[0], limit=_MOST_JOBS):
        probe, count = listed.job, _devices(listed.job.spec)
        least = devices if found is None else found["probe_devices"]
        if PROBE not in probe.labels or count >= least or not _is_like(probe.spec, job.spec):
            continue
        times = speed_up(training, training_of(site, probe.id)[1])
        if times is not None:
            found = {
                "probe": split_job_id(probe.id)[1],
                "devices": devices,
                "probe_devices": count,
                "speed_up": times,
                "efficiency": times * count / devices,
            }
    return found


def _devices(spec: JobSpec) -> int:
    """What trains: accelerators, or machines that have none."""
    trains = [group for group in spec.groups if group.role in ("chief", "worker")]
    return sum(group.count * max(1, group.machine.accelerators) for group in trains)


def _is_like(spec: JobSpec, other: JobSpec) -> bool:
    """Whether it is the same program on the same kind of hardware; it may be more of it."""
    return (spec.pool == "") == (other.pool == "") and _trained(spec) == _trained(other)


def _trained(spec: JobSpec) -> tuple[Program, Group]:
    """What it runs, and on what: one replica of it. Packages are known by their content, wherever they were uploaded to."""
    packages = tuple("/".join(uri.split("/")[-2:]) for uri in spec.program.packages)
    chief = spec.groups[0]
    machine = chief.machine if not chief.machine.accelerator else Machine(accelerator=chief.machine.accelerator)
    variables = {name: value for name, value in spec.program.variables.items() if name not in _OF_THE_HARDWARE}
    program = replace(spec.program, packages=packages, variables=variables)
    return program, replace(chief, count=1, machine=machine)


def training_of(site: Services, job: str, number: int = 0) -> tuple[int | None, list[Progress], Saves]:
    """The attempt that is told of, what its replicas have told of their steps, and its checkpoints."""
    attempts = {found.id: found for found in site.store.attempts(job)}
    lines: dict[int, list[tuple[str, str]]] = {}
    for line in site.logs.aside(job, STEPS):
        known = attempts.get(line.attempt)
        if known is not None and number in (0, known.number):
            lines.setdefault(known.number, []).append((line.replica, line.text))
    for newest in sorted(lines, reverse=True):
        training, saves = progress_of(lines[newest]), saves_of(lines[newest])
        if training or saves.count:
            return newest, training, saves
    return None, [], saves_of([])


def _replica(progress: Progress, points: int) -> ReplicaSteps:
    recent = progress.recent
    return {
        "replica": progress.replica,
        "step": progress.last.step,
        "runs": progress.runs,
        "told_at": progress.last.at,
        "steps_per_second": per_second(recent.steps, recent),
        "examples_per_second": per_second(recent.examples, recent),
        "step_seconds": step_seconds(recent),
        "longest_step_seconds": recent.longest,
        "first_step_seconds": progress.first_seconds,
        "epoch_steps": progress.epoch_steps,
        "data_wait_share": share(recent.waited, recent),
        "together_share": share(recent.together, recent),
        "values": {name: _plain(value) for name, value in progress.values.items()},
        "series": [_point(window) for window in series(progress.windows, points)],
    }


def _point(window: Window) -> Point:
    return {
        "at": window.at,
        "step": window.step,
        "steps_per_second": per_second(window.steps, window),
        "data_wait_share": share(window.waited, window),
        "values": {name: _plain(value) for name, value in window.values.items()},
    }


def _plain(value: float) -> float | str:
    """JSON knows no numbers that are none."""
    return value if math.isfinite(value) else str(value)
