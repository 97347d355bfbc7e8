"""The body of a training job, a Job of AI Platform v1: what a config.yaml says, and what flags say over it.

Precedence, as gcloud's: a flag over the same field of config.yaml, the positional name over jobId, what stands after `--`
over trainingInput.args.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import JOB_NAME
from stoker.core.options import OPTIONS

from .arguments import Unfit, a_text, shown

_ROLES = {"master": "master", "worker": "worker", "parameter-server": "parameterServer"}
_FIELDS = (
    ("region", "region"),
    ("module_name", "pythonModule"),
    ("job_dir", "jobDir"),
    ("runtime_version", "runtimeVersion"),
    ("python_version", "pythonVersion"),
    ("use_chief_in_tf_config", "useChiefInTfConfig"),
    ("service_account", "serviceAccount"),
    ("network", "network"),
    ("enable_web_access", "enableWebAccess"),
)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """So many accelerators of a type, by its name in the API, for each replica of a role."""

    count: int
    type: str


def an_accelerator(value: Any) -> Accelerator:
    """What `{"type": "NVIDIA_TESLA_T4", "count": 4}` names, the type by any of its names. Raises Unfit."""
    from stoker.hardware.accelerators import find_accelerator

    try:
        count, name = int(value["count"]), a_text(value["type"])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        count, name = 0, ""
    if count < 1:
        raise Unfit(f"{shown(value)} names no accelerators", "give {'type': 'NVIDIA_TESLA_T4', 'count': 4}")
    found = find_accelerator(name)
    return Accelerator(count, found.name if found else name)


def merge(
    body: Mapping[str, Any], flags: Mapping[str, Any], *, name: str | None, user_args: Sequence[str] | None
) -> dict[str, Any]:
    """The Job that the file and the flags together ask for. The packages are added later, when they are uploaded."""
    job: dict[str, Any] = camel_keys(copy.deepcopy(dict(body)))
    if name:
        job["jobId"] = name
    if flags.get("labels") is not None:
        job["labels"] = flags["labels"]
    options = {o.label: o.kind.write(flags[o.name]) for o in OPTIONS if o.label and flags.get(o.name) is not None}
    if options and isinstance(job.get("labels") or {}, dict):
        job["labels"] = {**(job.get("labels") or {}), **options}
    if job.get("trainingInput") is None:
        job["trainingInput"] = {}
    if not isinstance(job["trainingInput"], dict):
        return job  # the rules of a job say what is wrong with it
    training = job["trainingInput"] = camel_keys(job["trainingInput"])
    training.update({field: flags[flag] for flag, field in _FIELDS if flags.get(flag) is not None})
    if flags.get("scale_tier"):
        training["scaleTier"] = flags["scale_tier"].upper().replace("-", "_")
    for flag, role in _ROLES.items():
        _merge_role(training, flags, flag, role)
    if flags.get("tpu_tf_version"):
        training["workerConfig"] = {**_table(training.get("workerConfig")), "tpuTfVersion": flags["tpu_tf_version"]}
    if flags.get("kms_key"):
        training["encryptionConfig"] = {"kmsKeyName": _kms_key(flags)}
    if flags.get("priority") is not None:
        training["scheduling"] = {**camel_keys(_table(training.get("scheduling"))), "priority": flags["priority"]}
    if user_args is not None:
        training["args"] = list(user_args)
    return job


def name_of_rehearsal() -> str:
    """A name for a rehearsal that nobody has named: when it was, and a few letters against twins."""
    import secrets  # slow to load, and seldom needed

    return f"rehearsal_{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(2)}"


def check_name(name: object) -> None:
    """Raise BadSpec for what no job may be called, before anything is packed and uploaded under that name."""
    rule = "letters, digits and underscores, first a letter, at most 128 characters"
    if not name:
        raise BadSpec([Violation("JOB", f"a job needs a name: {rule}")])
    if not isinstance(name, str) or not JOB_NAME.fullmatch(name):
        raise BadSpec([Violation("job.job_id", f"{str(name)[:80]!r} is not a job id: {rule}")])


def _merge_role(training: dict[str, Any], flags: Mapping[str, Any], flag: str, role: str) -> None:
    prefix = flag.replace("-", "_")
    if flags.get(f"{prefix}_machine_type"):
        training[f"{role}Type"] = flags[f"{prefix}_machine_type"]
    if flags.get(f"{prefix}_count") is not None:
        training[f"{role}Count"] = str(flags[f"{prefix}_count"])
    config = camel_keys(_table(training.get(f"{role}Config")))
    if flags.get(f"{prefix}_accelerator"):
        accelerator: Accelerator = flags[f"{prefix}_accelerator"]
        config["acceleratorConfig"] = {"count": str(accelerator.count), "type": accelerator.type}
    if flags.get(f"{prefix}_image_uri"):
        config["imageUri"] = flags[f"{prefix}_image_uri"]
    if config:
        training[f"{role}Config"] = config
    named = [part for part in ("machine-type", "accelerator") if flags.get(f"{prefix}_{part.replace('-', '_')}")]
    if named and role != "master" and not training.get(f"{role}Count"):
        raise BadSpec([Violation(f"--{flag}-{named[0]}", f"needs --{flag}-count, or there are none of them")])


def _kms_key(flags: Mapping[str, Any]) -> str:
    key = str(flags["kms_key"])
    if "/" in key:
        return key
    missing = [f"--kms-{part}" for part in ("keyring", "location", "project") if not flags.get(f"kms_{part}")]
    if missing:
        raise BadSpec([Violation("--kms-key", f"is not a full key name, so it needs {', '.join(missing)}")])
    return (
        f"projects/{flags['kms_project']}/locations/{flags['kms_location']}"
        f"/keyRings/{flags['kms_keyring']}/cryptoKeys/{key}"
    )


def _table(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def camel_keys(table: dict[Any, Any]) -> dict[str, Any]:
    """The same table with its keys in the spelling of the flags' fields: a file may say `master_type` (contract, section 0)."""
    return {re.sub(r"(?<=[a-z0-9])_([a-z])", lambda m: m[1].upper(), str(key)): part for key, part in table.items()}
