"""How a job trains: its steps, and what is wrong with them."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.control.steps import (
    Progress,
    Saves,
    Window,
    findings,
    per_second,
    progress_of,
    saves_of,
    series,
    share,
    step_seconds,
)
from stoker.core.ids import job_id
from stoker.core.job import Attempt
from stoker.store.logs import STEPS

from .answers import a_router, answer, declares
from .schemas.steps import Point, ReplicaSteps, Training
from .schemas.words import Name, Project, asks

LARGEST = 1000

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
    site.store.job(job)
    attempts = {found.id: found for found in site.store.attempts(job)}
    number, training, saves = _training(site, job, attempts, attempt)
    found: Training = {
        "attempt": number,
        "way": next((p.way for p in training if p.way), ""),
        "replicas_in_step": max((p.in_step for p in training if p.way), default=None),
        "replicas": [_replica(progress, max(2, min(points, LARGEST))) for progress in training],
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
        "findings": [{"code": f.code, "text": f.text, "action": f.action} for f in findings(training)],
    }
    return answer(found)


def _training(
    site: Services, job: str, attempts: dict[str, Attempt], number: int
) -> tuple[int | None, list[Progress], Saves]:
    """The attempt that is told of, what its replicas have told of their steps, and its checkpoints."""
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
