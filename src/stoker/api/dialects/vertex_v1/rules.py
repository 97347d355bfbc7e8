"""The rules of CustomJobSpec (contract, section 7). The first line of each docstring is the rule as docs/fields.md tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from stoker.api.rules import module_problems, packages
from stoker.api.shapes import LONGEST_NAME, MOST_REPLICAS, Asked
from stoker.api.translation import SiteRules, Whole, seconds, value_at
from stoker.core.convention import POOLS
from stoker.hardware.rules import RoleRequest

MOST_VARIABLES = 100
DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def used_pools(spec: Whole) -> list[tuple[int, Whole]]:
    """The worker pools that ask for replicas, with their numbers."""
    return [(n, pool) for n, pool in enumerate(spec.get("workerPoolSpecs", ())) if pool and replicas(pool)]


def replicas(pool: Whole) -> int:
    """How many replicas a pool asks for; one, where it does not say."""
    return int(pool.get("replicaCount", 1))


def asked_of_hardware(spec: Whole, location: str) -> Asked:
    """The pools' machines and the region, as the hardware's rules take them."""
    return (
        "CUSTOM",
        tuple(_request(POOLS[n], pool) for n, pool in used_pools(spec) if n < len(POOLS)),
        location[:LONGEST_NAME],
    )


def pools(value: Any, spec: Whole, site: SiteRules) -> Iterable[str]:
    """One to four: the chief (one replica), workers, parameter servers, evaluators; an unused one is {}."""
    if not value:
        yield "at least one worker pool is needed: what to run, and on what"
        return
    if len(value) > len(POOLS):
        yield f"{len(value)} worker pools, of at most {len(POOLS)}: chief, workers, parameter servers, evaluators"
    if not value[0] or replicas(value[0]) != 1:
        yield "the first worker pool is the chief and has exactly one replica"


def a_type_if_counted(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Required with an acceleratorCount; known to the catalog, and possible together, in one zone of the location."""
    if value in (None, "ACCELERATOR_TYPE_UNSPECIFIED") and value_at(pool, "machineSpec.acceleratorCount"):
        yield "accelerators are counted, but of which type is not said"


def some_replicas(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """At most 10,000."""
    if value is not None and not 0 <= int(value) <= MOST_REPLICAS:
        yield f"{value} replicas, of at most {MOST_REPLICAS}"


def a_program(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Either containerSpec or pythonPackageSpec."""
    if ("containerSpec" in pool) == ("pythonPackageSpec" in pool):
        yield "a worker pool has either a container_spec or a python_package_spec"


def with_the_machine(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Known to the catalog, and possible together, in one zone of the location."""
    return ()


def an_image(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Required; something here stands in for it."""
    if "containerSpec" in pool and not value:
        yield "a container needs its image"


def an_executor(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Something here stands in for it; by default, for each of Google's pre-built ones."""
    return ()


def some_packages(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Required; at most 100, each a readable `gs://BUCKET/…` or absolute path."""
    if "pythonPackageSpec" in pool and not value:
        yield "a Python program needs at least one package"
    yield from packages(value, pool, site)


def a_module(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Required; a dotted name."""
    if "pythonPackageSpec" in pool and not value:
        yield "a Python program needs the module to run, such as trainer.task"
    yield from module_problems(value)


def variables(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """At most 100; letters, digits, `_`, `-`, `.` in names. `$(VAR)` refers to one before it."""
    if value is None:
        return
    if len(value) > MOST_VARIABLES:
        yield f"{len(value)} variables, of at most {MOST_VARIABLES}"
    for variable in value:
        if not _VARIABLE.fullmatch(variable.get("name", "")):
            yield f"{variable.get('name', '')[:80]!r} is not a variable's name"


def a_disk(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """`pd-ssd`, `pd-standard` or `hyperdisk-balanced`."""
    if value is not None and value not in DISK_TYPES:
        yield f"{value[:80]!r} is not known: use {' or '.join(DISK_TYPES)}"


def no_mounts(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Refused: nothing is mounted here."""
    if value:
        yield "nothing is mounted here: use gs://BUCKET/…, which programs also find at /gcs/BUCKET/…"


def whole_gpus(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Refused: a job gets whole GPUs."""
    if value:
        yield "a job gets whole GPUs here: leave it out"


def no_tpus(value: Any, pool: Whole, site: SiteRules) -> Iterable[str]:
    """Refused: there are no TPUs."""
    if value:
        yield "this Stoker has no TPUs; use GPUs or CPUs"


def a_timeout(value: Any, spec: Whole, site: SiteRules) -> Iterable[str]:
    """Seven days where it is not given, or 0s."""
    return ()


def a_strategy(value: Any, spec: Whole, site: SiteRules) -> Iterable[str]:
    """`SPOT`: it may be stopped for others at any time, and goes on later. The others change nothing."""
    return ()


def is_spot(strategy: str) -> bool:
    """Whether a strategy lets others go first."""
    return strategy == "SPOT"


def table_of(variables: Iterable[Whole]) -> dict[str, str]:
    """The variables of a pool by their names."""
    return {variable["name"]: variable.get("value", "") for variable in variables}


def limit_of(timeout: str) -> float:
    """The limit in seconds; 0s stands for none of one's own."""
    return seconds(timeout) or 604800.0


def _request(role: str, pool: Whole) -> RoleRequest:
    accelerator = value_at(pool, "machineSpec.acceleratorType") or ""
    is_none = accelerator in ("", "ACCELERATOR_TYPE_UNSPECIFIED")
    return RoleRequest(
        role=role,
        count=min(replicas(pool), MOST_REPLICAS) if role != "chief" else 1,
        machine_type=(value_at(pool, "machineSpec.machineType") or "")[:LONGEST_NAME],
        accelerator="" if is_none else accelerator,
        accelerator_count=0 if is_none else value_at(pool, "machineSpec.acceleratorCount") or 0,
    )
