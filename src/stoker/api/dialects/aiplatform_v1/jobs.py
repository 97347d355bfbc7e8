"""The translation `Job JSON ⇄ JobSpec`: what a TrainingInput asks for, every rule of the contract, and the answer. Pure.

Rules and their numbers: AI Platform v1 contract, section 1.3. What is wrong is reported all at once.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoker.api.proto_json import snake
from stoker.core.errors import BadSpec, Unimplemented, Violation
from stoker.core.ids import JOB_NAME, split_job_id
from stoker.core.job import Job, Request
from stoker.core.spec import Group, JobSpec, Limits, Machine, Program
from stoker.core.states import shown_state
from stoker.hardware.rules import Fault, RoleRequest, Shape, check, needs_tpu
from stoker.store.base import Listed

from .messages import JOB, TRAINING_INPUT

DIALECT = "aiplatform_v1"
MOST_LABELS = 64
MOST_PACKAGES = 100
MOST_REPLICAS = 10_000
"""Of one role. No site has more, and to look for room for a billion would take for ever."""

SHORTEST_WAIT_SECONDS = 1800.0
DISK_TYPES = ("pd-ssd", "pd-standard")
_PREFIX = {"chief": "master", "worker": "worker", "ps": "parameterServer", "evaluator": "evaluator"}
_SUFFIX = {
    "machine_type": "_type",
    "replica_count": "_count",
    "accelerator_type": "_config.accelerator_config.type",
    "accelerator_count": "_config.accelerator_config.count",
}
_URI = re.compile(r"(gs|s3)://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/.*)?|/.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules:
    """What the site adds to the rules."""

    runtime_versions: frozenset[str] = frozenset()
    strict_runtimes: bool = False
    grace_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job as it was asked for, understood."""

    name: str
    labels: Mapping[str, str]
    spec: JobSpec
    shapes: tuple[Shape, ...]
    request: Request


def read_job(body: Any, site: SiteRules) -> Submission:
    """Understand a Job body. Raises BadSpec with every violation, or Unimplemented."""
    violations: list[Violation] = []
    job = JOB.read(body, "job", violations)
    if "predictionInput" in job and "trainingInput" not in job:
        raise Unimplemented("prediction jobs are not served by this Stoker yet")
    if "predictionInput" in job:
        violations.append(Violation("job.prediction_input", "a job has a trainingInput or a predictionInput, not both"))
    name = job.get("jobId", "")
    if not JOB_NAME.fullmatch(name):
        problem = (
            f"{name[:200]!r} is not a job id: letters, digits and underscores, first a letter, at most 128 characters"
            if name
            else "a job needs an id: letters, digits and underscores, first a letter, at most 128 characters"
        )
        violations.append(Violation("job.job_id", problem))
    labels: dict[str, str] = job.get("labels", {})
    violations += label_violations(labels)
    if "trainingInput" not in job:
        violations.append(Violation("job.training_input", "a job needs a trainingInput: what to run, and on what"))
        raise BadSpec(violations)
    training = TRAINING_INPUT.read(job["trainingInput"], "", violations)
    if "hyperparameters" in training and not violations:
        raise Unimplemented("hyperparameter tuning is not served by this Stoker yet")
    shapes, found = _machines(training)
    violations += found
    violations += _program_violations(training, site)
    violations += _disk_violations(training)
    violations += _scheduling_violations(training.get("scheduling", {}))
    if violations:
        raise BadSpec(violations)
    return Submission(
        name=name,
        labels=labels,
        spec=_spec(training, shapes, site),
        shapes=shapes,
        request=Request(dialect=DIALECT, body=json.dumps(body)),
    )


def answer(listed: Listed, *, position: int | None = None) -> dict[str, Any]:
    """The Job as the API shows it: the body that was sent, in canonical spelling, and what became of it."""
    job, attempt = listed.job, listed.attempt
    state = shown_state(job.state, job.wish, attempt.state if attempt else None, attempt.cause if attempt else None)
    shown: dict[str, Any] = {"jobId": split_job_id(job.id)[1], **_sent(job)}
    shown |= {"createTime": timestamp(job.submitted_at), "state": str(state), "etag": etag(job)}
    if job.labels:
        shown["labels"] = dict(job.labels)
    if job.started_at is not None:
        shown["startTime"] = timestamp(job.started_at)
    if job.ended_at is not None:
        shown["endTime"] = timestamp(job.ended_at)
        if job.message:
            shown["errorMessage"] = job.message
    if position is not None:
        shown["jobPosition"] = str(position)
    return shown


def label_violations(labels: Mapping[str, str]) -> list[Violation]:
    """What is wrong with labels (contract 1.1)."""
    if len(labels) > MOST_LABELS:
        return [Violation("job.labels", f"{len(labels)} labels, of at most {MOST_LABELS}")]
    found = []
    for key, value in labels.items():
        if not _is_label(key, 1) or not key[0].isalpha():
            rule = "a key is 1 to 63 lower-case letters, digits, '_' and '-', and starts with a letter"
            found.append(Violation(f"job.labels.{key[:80]}", f"{key[:80]!r}: {rule}"))
        elif not _is_label(value, 0):
            rule = "a value is at most 63 lower-case letters, digits, '_' and '-'"
            found.append(Violation(f"job.labels.{key}", f"{value[:80]!r}: {rule}"))
    return found


def etag(job: Job) -> str:
    """Changes with every change that a user can see."""
    return base64.b64encode(f"{job.revision}:{split_job_id(job.id)[1]}".encode()).decode()


def revision_of(text: str) -> int:
    """The revision that an etag stands for; 0, which no job has, for a text that is none."""
    try:
        return int(base64.b64decode(text, validate=True).split(b":")[0])
    except ValueError:
        return 0


def timestamp(seconds: float) -> str:
    """RFC 3339, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _machines(training: Mapping[str, Any]) -> tuple[tuple[Shape, ...], list[Violation]]:
    """The machines that the job asks for, by the rules of the hardware (rules 1 to 5, 10, 12)."""
    requests, violations = [], []
    for role, prefix in _PREFIX.items():
        config = training.get(f"{prefix}Config", {})
        accelerator = config.get("acceleratorConfig", {})
        count = 1 if role == "chief" else int(training.get(f"{prefix}Count", 0))
        if count > MOST_REPLICAS:
            violations.append(Violation(f"{snake(prefix)}_count", f"{count} replicas, of at most {MOST_REPLICAS}"))
            count = MOST_REPLICAS
        machine_type = training.get(f"{prefix}Type", "")
        if accelerator and not ("count" in accelerator and "type" in accelerator):
            path = f"{snake(prefix)}_config.accelerator_config"
            violations.append(Violation(path, "needs both count and type"))
            accelerator = {}
        requests.append(
            RoleRequest(
                role=role,
                count=count,
                machine_type=machine_type,
                accelerator=accelerator.get("type", ""),
                accelerator_count=int(accelerator.get("count", 0)),
            )
        )
    region = training.get("region", "")
    tier = training.get("scaleTier", "BASIC")
    shapes, faults = check(tier, requests, region)
    if faults and tier != "CUSTOM":
        faults += _faults_if_custom(requests, region, faults)
    if not region:
        violations.append(Violation("region", "a region is required, such as us-central1"))
        faults = tuple(fault for fault in faults if fault.field not in ("region", "zone"))
    violations += [Violation(_path(fault), f"{fault.found}: {fault.why}; {fault.fix}") for fault in faults]
    if needs_tpu(shapes):
        tpu_role = next(s.role for s in shapes if s.accelerator.startswith("TPU_") or s.machine.name == "cloud_tpu")
        path = "scale_tier" if training.get("scaleTier") == "BASIC_TPU" else f"{snake(_PREFIX[tpu_role])}_type"
        violations.append(Violation(path, "this Stoker has no TPUs; use GPUs or CPUs"))
    return shapes, violations


def _faults_if_custom(requests: list[RoleRequest], region: str, known: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Names that are wrong in any tier: told at once, not only when the tier has been put right."""
    named = {text for r in requests for text in (r.machine_type, r.accelerator) if text}
    _, faults = check("CUSTOM", requests, region)
    return tuple(fault for fault in faults if fault.found in named and fault not in known)


def _path(fault: Fault) -> str:
    if fault.field in ("region", "zone"):
        return "region"
    if not fault.role or fault.field not in _SUFFIX:
        return "scale_tier"
    return snake(_PREFIX[fault.role]) + _SUFFIX[fault.field]


def _program_violations(training: Mapping[str, Any], site: SiteRules) -> list[Violation]:
    """What to run, and with what (rules 6 to 9)."""
    found: list[Violation] = []
    image = training.get("masterConfig", {}).get("imageUri", "")
    runtime, python = training.get("runtimeVersion", ""), training.get("pythonVersion", "")
    packages = training.get("packageUris", [])
    if image:
        if runtime:
            found.append(Violation("runtime_version", "an image brings its own runtime: give one of the two, not both"))
        if python:
            found.append(Violation("python_version", "an image brings its own Python: leave it out"))
    else:
        if not packages:
            found.append(
                Violation("package_uris", "a Python program needs at least one package (--package-path makes one)")
            )
        if not training.get("pythonModule"):
            found.append(Violation("python_module", "a Python program needs the module to run, such as trainer.task"))
        found += _runtime_violations(runtime, python, site)
    if len(packages) > MOST_PACKAGES:
        found.append(Violation("package_uris", f"{len(packages)} packages, of at most {MOST_PACKAGES}"))
        packages = []
    job_dir = [training["jobDir"]] if training.get("jobDir") else []
    for field, uri in [*(("package_uris", uri) for uri in packages), *(("job_dir", uri) for uri in job_dir)]:
        if not _URI.fullmatch(uri):
            rule = "neither gs://BUCKET/… nor an absolute path; a bucket name has 3 to 63 of a-z, 0-9, '-', '_', '.'"
            found.append(Violation(field, f"{uri[:200]!r} is {rule}"))
    for prefix in _PREFIX.values():
        config, path = training.get(f"{prefix}Config", {}), f"{snake(prefix)}_config"
        own = [key for key in ("containerCommand", "containerArgs") if config.get(key)]
        if own and training.get("args"):
            found.append(Violation("args", f"cannot be given together with {snake(prefix)}_config.{snake(own[0])}"))
        if own and not (config.get("imageUri") or image):
            found.append(Violation(f"{path}.{snake(own[0])}", "needs an imageUri, here or for the master"))
        if prefix != "master" and config.get("imageUri") and not image:
            found.append(Violation(f"{path}.image_uri", "the master has no image: all replicas have one, or none"))
    return found


def _disk_violations(training: Mapping[str, Any]) -> list[Violation]:
    """The disks are kept with the job; there are two types of them (contract 1.4)."""
    found: list[Violation] = []
    for prefix in _PREFIX.values():
        disk = training.get(f"{prefix}Config", {}).get("diskConfig", {})
        if disk.get("bootDiskType", DISK_TYPES[0]) not in DISK_TYPES:
            path = f"{snake(prefix)}_config.disk_config.boot_disk_type"
            found.append(Violation(path, f"{disk['bootDiskType'][:80]!r} is not known: use {' or '.join(DISK_TYPES)}"))
    return found


def _runtime_violations(runtime: str, python: str, site: SiteRules) -> list[Violation]:
    found: list[Violation] = []
    version = _version(runtime)
    if runtime and version is None:
        found.append(Violation("runtime_version", f"{runtime!r} is not a version like 2.11"))
    elif runtime and site.strict_runtimes and runtime not in site.runtime_versions:
        known = ", ".join(sorted(site.runtime_versions)) or "none"
        found.append(Violation("runtime_version", f"{runtime} is not configured here; there are: {known}"))
    possible = {"2.7": ((0, 0), (1, 15)), "3.5": ((1, 4), (1, 14)), "3.7": ((1, 15), (99, 0))}
    if python and python not in possible:
        rule = "there are 2.7, 3.5 and 3.7; leave it out to use this site's own Python"
        found.append(Violation("python_version", f"{python!r} is not known: {rule}"))
    elif python and version is not None:
        low, high = possible[python]
        if not low <= version <= high:
            fit = [name for name, (a, b) in possible.items() if a <= version <= b]
            found.append(
                Violation("python_version", f"{python} does not go with runtime {runtime}; use {' or '.join(fit)}")
            )
    return found


def _scheduling_violations(scheduling: Mapping[str, Any]) -> list[Violation]:
    """Rule 11."""
    found: list[Violation] = []
    wait, running = scheduling.get("maxWaitTime"), scheduling.get("maxRunningTime")
    if wait is not None and _seconds(wait) < SHORTEST_WAIT_SECONDS:
        found.append(Violation("scheduling.max_wait_time", f"{wait} is under the shortest there is, 1800s"))
    if running is not None and _seconds(running) <= 0:
        found.append(Violation("scheduling.max_running_time", "must be longer than 0s"))
    if not 0 <= scheduling.get("priority", 0) <= 1000:
        found.append(Violation("scheduling.priority", f"{scheduling['priority']} is not between 0 and 1000"))
    return found


def _spec(training: Mapping[str, Any], shapes: tuple[Shape, ...], site: SiteRules) -> JobSpec:
    image = training.get("masterConfig", {}).get("imageUri", "")
    scheduling = training.get("scheduling", {})
    wait = scheduling.get("maxWaitTime")
    return JobSpec(
        program=Program(
            packages=tuple(training.get("packageUris", ())),
            module=training.get("pythonModule", ""),
            args=tuple(training.get("args", ())),
            runtime=training.get("runtimeVersion", ""),
            python=training.get("pythonVersion", ""),
        ),
        groups=tuple(_group(shape, training, image) for shape in shapes),
        region=training["region"],
        job_dir=training.get("jobDir", ""),
        priority=scheduling.get("priority", 0),
        limits=Limits(
            running_seconds=_seconds(scheduling.get("maxRunningTime", "604800s")),
            wait_seconds=_seconds(wait) if wait is not None else None,
            grace_seconds=site.grace_seconds,
        ),
        primary_name=_primary_name(training, image),
        told=json.dumps(_snake_keys(training)),
    )


def _group(shape: Shape, training: Mapping[str, Any], image: str) -> Group:
    config = training.get(f"{_PREFIX[shape.role]}Config", {})
    return Group(
        role=shape.role,
        count=shape.count,
        machine=Machine(
            type=shape.machine.name,
            vcpus=shape.vcpus,
            memory_gb=shape.memory_gb,
            accelerator=shape.accelerator,
            accelerator_milli=1000 * shape.accelerator_count,
        ),
        image=config.get("imageUri", "") or image,
        command=tuple(config.get("containerCommand", ())),
        args=tuple(config.get("containerArgs", ())),
    )


def _primary_name(training: Mapping[str, Any], image: str) -> str:
    """What TF_CONFIG calls the chief (contract 3.3)."""
    if image:
        return "chief" if training.get("useChiefInTfConfig") else "master"
    version = _version(training.get("runtimeVersion", ""))
    return "master" if version is not None and version <= (1, 15) else "chief"


def _sent(job: Job) -> dict[str, Any]:
    """The user's own part of the answer."""
    if job.request.dialect != DIALECT:
        return {}
    sent = JOB.read(json.loads(job.request.body), "job", [])
    training = TRAINING_INPUT.read(sent.get("trainingInput", {}), "", [])
    return {"trainingInput": training}


def _snake_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake(key): _snake_keys(part) for key, part in value.items()}
    return [_snake_keys(part) for part in value] if isinstance(value, list) else value


def _version(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", text)
    return (int(match[1]), int(match[2])) if match else None


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def _is_label(text: str, shortest: int) -> bool:
    return shortest <= len(text) <= 63 and all(c.isalnum() or c in "_-" for c in text) and text == text.lower()
