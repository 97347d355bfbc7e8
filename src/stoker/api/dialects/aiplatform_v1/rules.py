"""The rules of TrainingInput (contract, section 1.3). The first line of each docstring is the rule as docs/fields.md tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from stoker.api.proto_json import snake
from stoker.api.rules import module_problems, packages
from stoker.api.shapes import LONGEST_NAME, MOST_REPLICAS, Asked, shape_violations
from stoker.api.translation import SiteRules, Whole, seconds, value_at
from stoker.core.errors import Violation
from stoker.core.runtimes import choose
from stoker.hardware.rules import RoleRequest

PREFIX = {"chief": "master", "worker": "worker", "ps": "parameterServer", "evaluator": "evaluator"}
"""Role → what the names of its fields begin with."""

SHORTEST_WAIT_SECONDS = 1800.0
_SUFFIX = {
    "machine_type": "_type",
    "replica_count": "_count",
    "accelerator_type": "_config.accelerator_config.type",
    "accelerator_count": "_config.accelerator_config.count",
}
_PYTHONS = {"2.7": ((0, 0), (1, 15)), "3.5": ((1, 4), (1, 14)), "3.7": ((1, 15), (999, 999))}
"""pythonVersion → the first and the last runtimeVersion that it goes with."""


def asked_of_hardware(whole: Whole) -> Asked:
    """The tier, the roles' machines and the region, as the hardware's rules take them."""
    region = whole.get("region", "")[:LONGEST_NAME]
    return whole.get("scaleTier", "BASIC"), tuple(_request(role, whole) for role in PREFIX), region


def machines(value: Any, whole: Whole, site: SiteRules) -> Iterable[Violation]:
    """The machines, counts and accelerators of all roles fit each other and the tier, in one zone (rules 1–5, 10, 12)."""
    for role, prefix in PREFIX.items():
        count = int(whole.get(f"{prefix}Count", 0)) if role != "chief" else 1
        if count > MOST_REPLICAS:
            yield Violation(f"{snake(prefix)}_count", f"{count} replicas, of at most {MOST_REPLICAS}")
        accelerator = _accelerator(prefix, whole)
        if accelerator and not ("count" in accelerator and "type" in accelerator):
            yield Violation(f"{snake(prefix)}_config.accelerator_config", "needs both count and type")
    yield from shape_violations(asked_of_hardware(whole), _path)


def with_the_machines(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """As scaleTier says."""
    return ()


def a_region(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Required; a region of the catalog."""
    if not value:  # one that is unknown is found with the machines
        yield "a region is required, such as us-central1"


def packages_or_image(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Required without an image; at most 100, each a readable `gs://BUCKET/…` or absolute path (rule 8)."""
    if not value and not _image(whole):
        yield "a Python program needs at least one package (--package-path makes one)"
    yield from packages(value, whole, site)


def module_or_image(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Required without an image; a dotted name (rule 8)."""
    if not value and not _image(whole):
        yield "a Python program needs the module to run, such as trainer.task"
    yield from module_problems(value)


def a_runtime(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Not with an image; M.m, and configured here if the site is strict (rules 6, 9)."""
    if not value:
        return
    if _image(whole):
        yield "an image brings its own runtime: give one of the two, not both"
    elif version(value) is None:
        yield f"{value!r} is not a version like 2.11"
    elif site.strict_runtimes and value not in site.runtimes.configured:
        chosen = choose(value, whole.get("pythonVersion", ""), site.runtimes)
        if chosen.problem:
            yield f"{chosen.problem}. What would do: {chosen.fix}"


def a_python(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Not with an image; 3.7 from runtime 1.15 on, 3.5 from 1.4 to 1.14, 2.7 up to 1.15 (rules 6, 9)."""
    if not value:
        return
    runtime = version(whole.get("runtimeVersion", ""))
    if _image(whole):
        yield "an image brings its own Python: leave it out"
    elif value not in _PYTHONS:
        yield f"{value!r} is not known: there are 2.7, 3.5 and 3.7; leave it out to use this site's own Python"
    elif runtime is not None and not _PYTHONS[value][0] <= runtime <= _PYTHONS[value][1]:
        fit = [name for name, (first, last) in _PYTHONS.items() if first <= runtime <= last]
        yield f"{value} does not go with runtime {whole['runtimeVersion']}; use {' or '.join(fit)}"


def an_image(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Something here stands in for it; all replicas have one, or none."""
    if value and not _image(whole):
        yield "the master has no image: all replicas have one, or none"


def a_start(role: str, name: str) -> Any:
    """The rule of containerCommand and containerArgs of one role."""

    def in_an_image(value: Any, whole: Whole, site: SiteRules) -> Iterable[str | Violation]:
        """Needs an image, its own or the master's; not together with args (rule 7)."""
        if not value:
            return
        prefix = PREFIX[role]
        if whole.get("args"):
            yield Violation("args", f"cannot be given together with {snake(prefix)}_config.{snake(name)}")
        if not (value_at(whole, f"{prefix}Config.imageUri") or _image(whole)):
            yield "needs an imageUri, here or for the master"

    return in_an_image


def half_an_hour(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """At least 1800s (rule 11)."""
    if value is not None and seconds(value) < SHORTEST_WAIT_SECONDS:
        yield f"{value} is under the shortest there is, 1800s"


def version(text: str) -> tuple[int, int] | None:
    """`2.11` → (2, 11); None for what is not a version."""
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", text)
    return (int(match[1]), int(match[2])) if match else None


def _request(role: str, whole: Whole) -> RoleRequest:
    prefix = PREFIX[role]
    accelerator = _accelerator(prefix, whole)
    if not ("count" in accelerator and "type" in accelerator):
        accelerator = {}
    return RoleRequest(
        role=role,
        count=1 if role == "chief" else min(int(whole.get(f"{prefix}Count", 0)), MOST_REPLICAS),
        machine_type=whole.get(f"{prefix}Type", "")[:LONGEST_NAME],
        accelerator=accelerator.get("type", "")[:LONGEST_NAME],
        accelerator_count=int(accelerator.get("count", 0)),
    )


def _accelerator(prefix: str, whole: Whole) -> Whole:
    """The acceleratorConfig of a role; empty where it says "none" in so many words."""
    found: Whole = value_at(whole, f"{prefix}Config.acceleratorConfig") or {}
    is_none = found.get("type") in (None, "ACCELERATOR_TYPE_UNSPECIFIED") and found.get("count") in (None, "0")
    return {} if is_none else found


def _path(role: str, field: str) -> str:
    if field in ("region", "zone"):
        return "region"
    return snake(PREFIX[role]) + _SUFFIX[field] if role and field in _SUFFIX else "scale_tier"


def _image(whole: Whole) -> str:
    image: str = value_at(whole, "masterConfig.imageUri") or ""
    return image
