"""The pools of a site file, and what projects may spend on them. What cannot exist is refused by the rules of the hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.core.copies import replace
from stoker.core.ids import PROJECT_NAME
from stoker.core.site import Budget, Pool
from stoker.hardware.accelerators import find_accelerator
from stoker.hardware.machines import find_machine_type
from stoker.hardware.prices import REFERENCE_REGION, Price, Unpriced, quote
from stoker.hardware.regions import find_region
from stoker.hardware.rules import RoleRequest, check, zones_for
from stoker.hardware.shapes import Shape

from .toml_tables import Table, a_count, a_number, a_switch, a_text, at_most

POOL_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""What the names of machines can begin with on every cloud, with room for a zone behind it."""

MOST_MACHINES = 10_000
MOST_DEVICES = 64
_devices = at_most(MOST_DEVICES, "is more than any machine has,", a_count)
_machines = at_most(MOST_MACHINES, "is more than the most,", a_count)
_ZONE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_OF_GOOGLE = re.compile(r"([a-z]+-[a-z]+\d+)-[a-z]")


def read_pools(table: Table, region: str, more_regions: Iterable[str]) -> dict[str, Pool]:
    """The pools, one for each zone of those that name several. `region`: of those that name neither zone nor region."""
    pools: dict[str, Pool] = {}
    for name in table.keys():
        one = table.table(name)
        if not POOL_NAME.fullmatch(name):
            one.refuse("", "is not a name of a pool: 1 to 40 lower-case letters, digits and '-', first a letter")
        for pool in _read_pool(name, one, region, more_regions):
            if pool.name in pools:
                one.refuse("", f"the pool {pool.name} is there already, as one of several zones: choose another name")
            pools[pool.name] = pool
    return pools


def read_budgets(table: Table) -> dict[str, Budget]:
    """What projects may spend; `default` is for each that is not named."""
    budgets = {}
    for project in table.keys():
        one = table.table(project)
        if not PROJECT_NAME.fullmatch(project):
            one.refuse("", "is not a name of a project")
        budgets[project] = Budget(
            usd_per_hour=one.read("usd_per_hour", None, _maybe_number),
            usd_per_month=one.read("usd_per_month", None, _maybe_number),
        )
        one.end()
    return budgets


def check_prices(pools: Mapping[str, Pool], table: Table) -> None:
    """Where money is limited, every pool has to have a price."""
    for name in table.keys():
        for pool in pools.values():
            if pool.usd_per_hour is None and pool.name in (name, f"{name}-{pool.zone}"):
                table.table(name).refuse(
                    "", f"has no price, and budgets count it ({_unpriced(pool)}): give it usd_per_hour"
                )


def _read_pool(name: str, table: Table, region: str, more_regions: Iterable[str]) -> list[Pool]:
    zones = [table.read("zone", "", _zone)] if "zone" in table or "zones" not in table else []
    zones += table.read("zones", [], _zones)
    if "zone" in table and "zones" in table:
        table.refuse("zones", "there is a `zone` as well: keep one of them")
    found = [
        _pool_in(zone, name if len(zones) == 1 else f"{name}-{zone}", table, region, more_regions) for zone in zones
    ]
    table.end()
    return [pool for pool in found if pool is not None]


def _pool_in(zone: str, name: str, table: Table, region: str, more_regions: Iterable[str]) -> Pool | None:
    google = _OF_GOOGLE.fullmatch(zone)
    where = table.read("region", google[1] if google else region, a_text)
    if where and find_region(where) is None and where not in more_regions:
        table.refuse(
            "region", f"there is no region {where[:60]!r} (stoker regions lists them); set `region` for one of your own"
        )
    if google and google[1] != where:
        table.refuse("region", f"the zone {zone} is in {google[1]}, not in {where[:60]}")
    machine, accelerator, count, vcpus, memory_gb = _read_machine(table, zone, where)
    least, most = table.read("min", 0, _machines), table.read("max", 0, _machines)
    if "max" not in table:
        table.refuse("", "needs `max`: how many machines it may have at most")
    elif least > most:
        table.refuse("min", f"is {least}, more than `max`, which is {most}")
    pool = Pool(
        name=name,
        machine=machine,
        accelerator=accelerator,
        accelerators=count,
        vcpus=vcpus,
        memory_gb=memory_gb,
        region=where,
        zone=zone,
        least=least,
        most=most,
        spot=table.read("spot", False, a_switch),
        usd_per_hour=table.read("usd_per_hour", None, _maybe_number),
        instance=table.read("instance", "", a_text),
    )
    if pool.usd_per_hour is None and machine:
        priced = quote(machine, accelerator, count, where, pool.spot)
        if isinstance(priced, Price):
            return replace(pool, usd_per_hour=priced.usd_per_hour)
    return pool


def _read_machine(table: Table, zone: str, region: str) -> tuple[str, str, int, float, float]:
    """What one machine is: its type, accelerators, vCPUs and memory."""
    machine = table.read("machine_type", "", a_text)
    accelerator, count = table.read("accelerator_type", "", _accelerator), table.read("accelerator_count", 0, _devices)
    vcpus, memory_gb = table.read("vcpus", 0.0, a_number), table.read("memory_gb", 0.0, a_number)
    if accelerator and not count:
        count = 1
    if count and not accelerator and machine:
        table.refuse("accelerator_count", "of which type? give accelerator_type as well")
    if not machine:
        if not vcpus or not memory_gb:
            table.refuse("", "needs `machine_type`, or the `vcpus` and `memory_gb` of a machine of your own")
        return "", accelerator, count, vcpus, memory_gb
    for key in ("vcpus", "memory_gb"):
        if key in table:
            table.refuse(key, f"the machine type {machine[:60]} says so already: leave it out")
    rules_of = (
        region if find_region(region) else REFERENCE_REGION
    )  # what is known of machines holds in a region of one's own
    shapes, faults = check(
        "CUSTOM",
        [RoleRequest(role="chief", count=1, machine_type=machine, accelerator=accelerator, accelerator_count=count)],
        rules_of,
    )
    for fault in faults:
        key = {"accelerator_type": "accelerator_type", "region": "region"}.get(fault.field, "machine_type")
        table.refuse(key, f"{fault.found}: {fault.why}; {fault.fix}")
    if not shapes:
        return "", accelerator, count, 1.0, 1.0
    shape = shapes[0]
    _check_kind(shape, zone, region, table)
    return shape.machine.name, shape.accelerator, shape.accelerator_count, shape.vcpus, shape.memory_gb


def _check_kind(shape: Shape, zone: str, region: str, table: Table) -> None:
    """A pool has machines that a cloud can be asked for, where they are."""
    if shape.machine.legacy:
        real = find_machine_type(shape.machine.gce_equivalent)
        with_gpus = f" with {shape.accelerator_count} x {shape.accelerator}" if shape.accelerator else ""
        name = real.name if real else shape.machine.gce_equivalent
        table.refuse(
            "machine_type", f"{shape.machine.name} is a name for jobs, not for machines: use {name}{with_gpus}"
        )
    if shape.machine.is_tpu_host:
        table.refuse("machine_type", "a pool has no TPUs: no engine here can order them")
    known = zones_for([shape], region)
    if zone and find_region(region) is not None and known and zone not in known:
        table.refuse(
            "zones" if "zones" in table else "zone",
            f"{zone} has no such machine; {region} has it in {', '.join(known)}",
        )


def _unpriced(pool: Pool) -> str:
    if not pool.machine:
        return "the machine type is not named"
    found = quote(pool.machine, pool.accelerator, pool.accelerators, pool.region, pool.spot)
    return found.why if isinstance(found, Unpriced) else ""


def _accelerator(value: Any) -> str:
    found = find_accelerator(a_text(value))
    if found is None:
        raise ValueError("is not an accelerator; stoker accelerators lists them")
    return found.name


def _maybe_number(value: Any) -> float | None:
    return a_number(value)


def _zone(value: Any) -> str:
    if not _ZONE.fullmatch(a_text(value)):
        raise ValueError("is not a zone: lower-case letters, digits and '-', such as us-west1-a")
    return str(value)


def _zones(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError('is not a list of zones, such as ["us-west1-a", "us-west1-b"]')
    zones = [_zone(one) for one in value]
    if len(set(zones)) != len(zones):
        raise ValueError("names a zone twice")
    return zones
