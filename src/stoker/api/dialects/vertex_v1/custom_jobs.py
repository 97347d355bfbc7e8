"""The translation `CustomJob JSON ⇄ JobSpec, Job`: one row a field, in the order of the contract (section 7). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.api.bounded_cache import bounded_cache
from stoker.api.labels import asked_by_labels, label_violations
from stoker.api.proto_json import snake_keys
from stoker.api.rules import a_directory, a_disk_size, check_size
from stoker.api.shapes import checked, machine_of, shape_violations
from stoker.api.times import times_of, timestamp
from stoker.api.translation import Row, SiteRules, Whole, anything, spec_of, targets_of, violations_of
from stoker.core.convention import POOLS, Convention
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import CUSTOM_JOB_PREFIX, split_job_id
from stoker.core.job import Job, Request
from stoker.core.options import with_options
from stoker.core.spec import Group, JobSpec, Retry
from stoker.core.states import JobState, ShownState
from stoker.hardware.rules import Shape
from stoker.store.base import Listed

from . import rules as r
from .messages import CUSTOM_JOB

DIALECT = "vertex_v1"
LONGEST_NAME = 128
POOL_SPECS = "job_spec.worker_pool_specs"

SPEC = (
    Row("workerPoolSpecs", r.pools, "groups.*"),
    Row("scheduling.timeout", r.a_timeout, "limits.running_seconds", r.limit_of),
    Row("scheduling.restartJobOnWorkerRestart", anything, "retry.in_place"),
    Row("scheduling.disableRetries", anything, "retry.whole_job"),
    Row("scheduling.maxWaitDuration", anything, ""),
    Row("scheduling.strategy", r.a_strategy, "preemptible", r.is_spot),
    Row("baseOutputDirectory.outputUriPrefix", a_directory, "job_dir"),
    *(
        Row(name, anything, "")
        for name in (
            *("serviceAccount", "network", "reservedIpRanges", "pscInterfaceConfig", "persistentResourceId"),
            *("protectedArtifactLocationId", "tensorboard", "enableWebAccess", "enableDashboardAccess"),
            *("experiment", "experimentRun", "models"),
        )
    ),
)

POOL = (
    Row("machineSpec.machineType", r.with_the_machine, "machine"),
    Row("machineSpec.acceleratorType", r.a_type_if_counted, "machine.accelerator"),
    Row("machineSpec.acceleratorCount", r.with_the_machine, "machine.accelerator_milli"),
    Row("machineSpec.gpuPartitionSize", r.whole_gpus, ""),
    Row("machineSpec.tpuTopology", r.no_tpus, ""),
    Row("machineSpec.reservationAffinity", anything, ""),
    Row("replicaCount", r.some_replicas, "count"),
    Row("containerSpec", r.a_program, ""),
    Row("containerSpec.imageUri", r.an_image, "image"),
    Row("containerSpec.command", anything, "command", tuple),
    Row("containerSpec.args", anything, "args", tuple),
    Row("containerSpec.env", r.variables, "env", r.table_of),
    Row("pythonPackageSpec.executorImageUri", r.an_executor, "image"),
    Row("pythonPackageSpec.packageUris", r.some_packages, "packages", tuple),
    Row("pythonPackageSpec.pythonModule", r.a_module, "module"),
    Row("pythonPackageSpec.args", anything, "args", tuple),
    Row("pythonPackageSpec.env", r.variables, "env", r.table_of),
    Row("diskSpec.bootDiskType", r.a_disk, ""),
    Row("diskSpec.bootDiskSizeGb", a_disk_size, ""),
    Row("nfsMounts", r.no_mounts, ""),
    Row("lustreMounts", r.no_mounts, ""),
)

STATES: Mapping[ShownState, str] = {
    ShownState.QUEUED: "JOB_STATE_QUEUED",
    ShownState.PREPARING: "JOB_STATE_PENDING",
    ShownState.RUNNING: "JOB_STATE_RUNNING",
    ShownState.SUCCEEDED: "JOB_STATE_SUCCEEDED",
    ShownState.FAILED: "JOB_STATE_FAILED",
    ShownState.CANCELLING: "JOB_STATE_CANCELLING",
    ShownState.CANCELLED: "JOB_STATE_CANCELLED",
}
_ERROR_CODES = {
    JobState.FAILED: 3,
    JobState.CANCELLED: 1,
}  # google.rpc.Code INVALID_ARGUMENT (the user's code), CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """A custom job as it was asked for, understood."""

    labels: Mapping[str, str]
    spec: JobSpec
    request: Request


def read_custom_job(body: Any, location: str, site: SiteRules) -> AskedJob:
    """Understand a CustomJob body. Raises BadSpec with every violation."""
    violations: list[Violation] = []
    job = CUSTOM_JOB.read(body, "", violations)
    if not isinstance(body, dict):
        raise BadSpec(violations)
    name = job.get("displayName", "")
    if not 1 <= len(name) <= LONGEST_NAME and not violations:
        violations.append(Violation("display_name", f"1 to {LONGEST_NAME} characters are needed, not {len(name)}"))
    labels: dict[str, str] = job.get("labels", {})
    wishes, wrong = asked_by_labels(labels, path="labels")
    violations += label_violations(labels, path="labels", longest=64) + wrong
    spec, prefix = job.get("jobSpec", {}), "job_spec."
    violations += violations_of(SPEC, spec, site, unread=violations, prefix=prefix)
    for n, pool in r.used_pools(spec):
        violations += violations_of(POOL, pool, site, unread=violations, prefix=f"{POOL_SPECS}[{n}].")
    if not violations:
        violations += shape_violations(r.asked_of_hardware(spec, location), _path)
    if violations:
        raise BadSpec(violations)
    text = json.dumps({"location": location, "job": body})
    check_size(text)
    asked = with_options(_spec(spec, location, site), wishes)
    return AskedJob(labels=labels, spec=asked, request=Request(dialect=DIALECT, body=text))


def answer(listed: Listed) -> dict[str, Any] | None:
    """The CustomJob as the API shows it; None for a job of another dialect."""
    job = listed.job
    if job.request.dialect != DIALECT:
        return None
    location, sent = _sent(job.request.body)
    project, name = split_job_id(job.id)
    shown: dict[str, Any] = {
        "name": f"projects/{project}/locations/{location}/customJobs/{name.removeprefix(CUSTOM_JOB_PREFIX)}",
        **sent,
        **times_of(job),
        "state": STATES[listed.state],
        "updateTime": timestamp(max(filter(None, (job.submitted_at, job.started_at, job.ended_at)))),
    }
    if job.labels:
        shown["labels"] = dict(job.labels)
    if job.state in _ERROR_CODES:
        shown["error"] = {"code": _ERROR_CODES[job.state], "message": job.message}
    return shown


def location_of(job: Job) -> str:
    """Where a custom job was created."""
    return _sent(job.request.body)[0]


def _spec(whole: Whole, location: str, site: SiteRules) -> JobSpec:
    targets = targets_of(SPEC, whole)
    pools = {POOLS[n]: targets_of(POOL, pool) for n, pool in r.used_pools(whole)}
    packages = dict.fromkeys(uri for pool in pools.values() for uri in pool.get("packages", ()))
    targets |= {"program.packages": tuple(packages), "region": location}
    targets |= {"limits.grace_seconds": site.grace_seconds, "limits.hang_seconds": site.hang_seconds}
    shapes, _ = checked(r.asked_of_hardware(whole, location))
    return spec_of(
        targets,
        groups=tuple(_group(shape, pools[shape.role]) for shape in shapes),
        convention=Convention.VERTEX,
        retry=_retry(targets),
        told=json.dumps(snake_keys(whole)),
    )


def _group(shape: Shape, targets: Mapping[str, Any]) -> Group:
    own = {name: targets[name] for name in ("image", "command", "args", "module", "env") if name in targets}
    return Group(role=shape.role, count=shape.count, machine=machine_of(shape), **own)


def _retry(targets: Mapping[str, Any]) -> Retry:
    """A worker that restarts takes the whole job with it, if that is asked for; disableRetries overrides it."""
    if targets.get("retry.whole_job"):
        return Retry(whole_job=0, in_place=0)
    return Retry(in_place=0) if targets.get("retry.in_place") else Retry()


def _path(role: str, field: str) -> str:
    if not role:
        return "parent" if field in ("region", "zone") else POOL_SPECS
    last = {
        "machine_type": "machine_spec.machine_type",
        "accelerator_type": "machine_spec.accelerator_type",
        "accelerator_count": "machine_spec.accelerator_count",
        "replica_count": "replica_count",
    }[field]
    return f"{POOL_SPECS}[{POOLS.index(role)}].{last}"


@bounded_cache
def _sent(body: str) -> tuple[str, dict[str, Any]]:
    """The location, and the user's own part of the answer. A job's body never changes."""
    stored = json.loads(body)
    sent = CUSTOM_JOB.read(stored["job"], "", [])
    sent.pop("labels", None)
    return stored["location"], sent
