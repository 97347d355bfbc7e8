"""The translation `Job JSON ⇄ AskedJob, Job`: what a Job body asks for, and how a job is shown. Pure.

What is wrong is reported all at once (contract, section 0.1).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.api.bounded_cache import bounded_cache
from stoker.api.labels import asked_by_labels, label_violations
from stoker.api.rules import check_size
from stoker.api.times import times_of
from stoker.api.translation import SiteRules, violations_of
from stoker.core.errors import BadSpec, Unimplemented, Violation
from stoker.core.ids import JOB_NAME, split_job_id
from stoker.core.job import Job, Request
from stoker.core.options import with_options
from stoker.core.spec import JobSpec
from stoker.core.states import JobState
from stoker.hardware.rules import Shape
from stoker.store.base import Listed

from .messages import JOB, TRAINING_INPUT
from .training import TRAINING, as_training, training_spec

DIALECT = "aiplatform_v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """A job as it was asked for, understood."""

    name: str
    labels: Mapping[str, str]
    spec: JobSpec
    shapes: tuple[Shape, ...]
    request: Request


def read_job(body: Any, site: SiteRules) -> AskedJob:
    """Understand a Job body. Raises BadSpec with every violation, or Unimplemented."""
    violations: list[Violation] = []
    job = JOB.read(body, "job", violations)
    if "predictionInput" in job and "trainingInput" not in job:
        raise Unimplemented("prediction jobs are not served by this Stoker yet")
    if "predictionInput" in job:
        violations.append(Violation("job.prediction_input", "a job has a trainingInput or a predictionInput, not both"))
    name = job.get("jobId", "")
    if not JOB_NAME.fullmatch(name):
        rule = "letters, digits and underscores, first a letter, at most 128 characters"
        problem = f"{name[:200]!r} is not a job id: {rule}" if name else f"a job needs an id: {rule}"
        violations.append(Violation("job.job_id", problem))
    labels: dict[str, str] = job.get("labels", {})
    wishes, wrong = asked_by_labels(labels)
    violations += label_violations(labels) + wrong
    if "trainingInput" not in job:
        violations.append(Violation("job.training_input", "a job needs a trainingInput: what to run, and on what"))
        raise BadSpec(violations)
    training = TRAINING_INPUT.read(job["trainingInput"], "", violations)
    violations += violations_of(TRAINING, training, site, unread=violations)
    if violations:
        raise BadSpec(violations)
    if "hyperparameters" in training:
        raise Unimplemented("hyperparameter tuning is not served by this Stoker yet")
    text = json.dumps(body)
    check_size(text)
    spec, shapes = training_spec(training, site)
    return AskedJob(
        name=name,
        labels=labels,
        spec=with_options(spec, wishes) if wishes else spec,
        shapes=shapes,
        request=Request(dialect=DIALECT, body=text),
    )


def answer(listed: Listed, *, position: int | None = None) -> dict[str, Any]:
    """The Job as the API shows it: the body that was sent, in canonical spelling, and what became of it.

    `position`: its place in the queue, from 1; None if it has none, or is not known at the moment.
    """
    job = listed.job
    shown: dict[str, Any] = {"jobId": split_job_id(job.id)[1]}
    shown["trainingInput"] = _sent(job.request.body) if job.request.dialect == DIALECT else as_training(job.spec)
    shown |= {**times_of(job), "state": str(listed.state), "etag": etag(job)}
    if job.labels:
        shown["labels"] = dict(job.labels)
    if job.ended_at is not None and job.message:
        shown["errorMessage"] = job.message
    if job.state is not JobState.QUEUED:
        shown["jobPosition"] = "0"
    elif position is not None:
        shown["jobPosition"] = str(position)
    if job.held_seconds:
        shown["trainingOutput"] = {"consumedMLUnits": consumed_units(job)}
    return shown


def consumed_units(job: Job) -> float:
    """What stands for ML units here: machine-hours, each replica's machine counted while an attempt held it."""
    return round(job.spec.replicas * job.held_seconds / 3600, 4)


def etag(job: Job) -> str:
    """Changes with every change that a user can see."""
    return base64.b64encode(f"{job.revision}:{split_job_id(job.id)[1]}".encode()).decode()


def revision_of(text: str, name: str) -> int:
    """The revision that an etag of that job stands for; 0, which no job has, for a text that is none, or another job's."""
    try:
        revision, _, of = base64.b64decode(text, validate=True).partition(b":")
        return int(revision) if of == name.encode() else 0
    except ValueError:
        return 0


@bounded_cache
def _sent(body: str) -> dict[str, Any]:
    """The user's own part of the answer. A job's body never changes."""
    sent = JOB.read(json.loads(body), "job", [])
    return TRAINING_INPUT.read(sent.get("trainingInput", {}), "", [])
