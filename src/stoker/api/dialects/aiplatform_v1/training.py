"""TrainingInput → JobSpec: one row a field, in the order of the contract (sections 1.3 to 1.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.api.proto_json import snake_keys
from stoker.api.rules import a_directory, a_disk, a_disk_size, a_priority, some_time
from stoker.api.shapes import checked, machine_of
from stoker.api.translation import Row, SiteRules, Whole, anything, seconds, spec_of, targets_of
from stoker.core.runtimes import choose
from stoker.core.spec import Group, JobSpec
from stoker.hardware.rules import Shape

from . import rules as r


def _rows_of(role: str) -> Iterator[Row]:
    """Type, count and ReplicaConfig of one role (1.3, 1.4)."""
    name, config = r.PREFIX[role], f"{r.PREFIX[role]}Config"
    yield Row(f"{name}Type", r.with_the_machines, f"groups.{role}.machine")
    if role != "chief":
        yield Row(f"{name}Count", r.with_the_machines, f"groups.{role}.count")
    yield Row(f"{config}.acceleratorConfig", r.with_the_machines, f"groups.{role}.machine.accelerator")
    yield Row(f"{config}.imageUri", r.an_image, f"groups.{role}.image")
    for field, target in (("containerCommand", "command"), ("containerArgs", "args")):
        yield Row(f"{config}.{field}", r.a_start(role, field), f"groups.{role}.{target}", tuple)
    yield Row(f"{config}.diskConfig.bootDiskType", a_disk, "")
    yield Row(f"{config}.diskConfig.bootDiskSizeGb", a_disk_size, "")
    yield Row(f"{config}.tpuTfVersion", anything, "")


TRAINING = (
    Row("region", r.a_region, "region"),
    Row("scaleTier", r.machines, "groups.*.machine"),
    *(row for role in r.PREFIX for row in _rows_of(role)),
    Row("runtimeVersion", r.a_runtime, "program.runtime"),
    Row("pythonVersion", r.a_python, "program.python"),
    Row("packageUris", r.packages_or_image, "program.packages", tuple),
    Row("pythonModule", r.module_or_image, "program.module"),
    Row("args", anything, "program.args", tuple),
    Row("jobDir", a_directory, "job_dir"),
    Row("scheduling.maxRunningTime", some_time, "limits.running_seconds", seconds),
    Row("scheduling.maxWaitTime", r.half_an_hour, "limits.wait_seconds", seconds),
    Row("scheduling.priority", a_priority, "priority"),
    Row("useChiefInTfConfig", anything, "primary_name"),
    Row("encryptionConfig.kmsKeyName", anything, ""),
    Row("network", anything, ""),
    Row("serviceAccount", anything, ""),
    Row("enableWebAccess", anything, ""),
)


def training_spec(whole: Whole, site: SiteRules) -> tuple[JobSpec, tuple[Shape, ...]]:
    """The spec of a TrainingInput in which nothing is wrong, and its shapes."""
    targets = targets_of(TRAINING, whole)
    image = targets.get("groups.chief.image", "")
    targets["primary_name"] = _primary_name(whole, image)
    targets["limits.grace_seconds"] = site.grace_seconds
    targets["limits.hang_seconds"] = site.hang_seconds
    if not image:
        chosen = choose(targets.get("program.runtime", ""), targets.get("program.python", ""), site.runtimes)
        targets["program.environment"] = chosen.environment
    shapes, _ = checked(r.asked_of_hardware(whole))
    groups = tuple(_group(shape, targets, image) for shape in shapes)
    return spec_of(targets, groups=groups, told=json.dumps(snake_keys(whole))), shapes


def as_training(spec: JobSpec) -> dict[str, Any]:
    """A job of another dialect in the words of this one, as far as it has them."""
    program, chief = spec.program, spec.groups[0]
    told: dict[str, Any] = {
        "scaleTier": "CUSTOM",
        "region": spec.region,
        "packageUris": list(program.packages),
        "pythonModule": program.module or chief.module,
        "args": list(program.args or (chief.args if chief.module else ())),
        "jobDir": spec.job_dir,
        "runtimeVersion": program.runtime,
        "scheduling": {"maxRunningTime": f"{spec.limits.running_seconds:g}s", "priority": spec.priority},
    }
    for group in spec.groups:
        told |= _told_of(group)
    return {name: value for name, value in told.items() if value}


def _told_of(group: Group) -> dict[str, Any]:
    """The type, count and ReplicaConfig of a group."""
    prefix, machine = r.PREFIX[group.role], group.machine
    config = {
        "imageUri": group.image,
        "containerCommand": list(group.command),
        "containerArgs": [] if group.module else list(group.args),
        "acceleratorConfig": {},
    }
    if machine.accelerators:
        config["acceleratorConfig"] = {"type": machine.accelerator, "count": str(machine.accelerators)}
    return {
        f"{prefix}Type": machine.type,
        f"{prefix}Count": "" if group.role == "chief" else str(group.count),
        f"{prefix}Config": {name: value for name, value in config.items() if value},
    }


def _group(shape: Shape, targets: Mapping[str, Any], image: str) -> Group:
    own = f"groups.{shape.role}"
    return Group(
        role=shape.role,
        count=shape.count,
        machine=machine_of(shape),
        image=targets.get(f"{own}.image", "") or image,  # the master's is everybody's (1.4)
        command=targets.get(f"{own}.command", ()),
        args=targets.get(f"{own}.args", ()),
    )


def _primary_name(whole: Whole, image: str) -> str:
    """What TF_CONFIG calls the chief (3.3)."""
    if image:
        return "chief" if whole.get("useChiefInTfConfig") else "master"
    version = r.version(whole.get("runtimeVersion", ""))
    return "master" if version is not None and version <= (1, 15) else "chief"
