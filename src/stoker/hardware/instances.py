"""Machines of clouds other than Google's, found by what they have. Only such with accelerators are in the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stoker.hardware.accelerators import accelerators
from stoker.hardware.table import figure, lines

PROVIDERS = ("aws", "azure", "lambda", "runpod")
"""The clouds other than Google's whose machines may be compared with its own by the hour."""

REFERENCE_LOCATIONS: Mapping[str, str] = MappingProxyType({"aws": "us-east-1"})
"""Whose machines stand for every region of a cloud, where the table has one region of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine type of a cloud, in one region of it."""

    name: str
    region: str
    accelerator: str  # the id of its chip, or what the price table calls one that has none
    accelerators: float  # some clouds sell fractions
    vcpus: float
    memory_gb: float
    usd_per_hour: float  # on demand
    as_of: str = ""


def cheapest_instance(
    provider: str, region: str, accelerator: str, count: int, vcpus: float, memory_gb: float
) -> Instance | None:
    """The cheapest with exactly these accelerators, and at least these vCPUs and memory; None where the table has none."""
    fitting = [
        one
        for one in instances_with(provider, accelerator, count)
        if one.region == REFERENCE_LOCATIONS.get(provider, region) and one.vcpus >= vcpus and one.memory_gb >= memory_gb
    ]
    return min(fitting, key=lambda one: (one.usd_per_hour, one.name), default=None)


def instances_with(provider: str, accelerator: str, count: int) -> list[Instance]:
    """Every machine of a cloud with exactly these accelerators, in all of its regions. `accelerator`: of the catalog."""
    known = accelerators().get(accelerator)
    if known is None:
        return []
    name = known.chip.gpu_id if known.chip is not None else known.gce_name
    return [one for one in _table(provider) if one.accelerator == name and one.accelerators == count]


def all_instances(provider: str) -> tuple[Instance, ...]:
    """Every machine of a cloud that has one price by the hour, those included whose price is the same everywhere (`*`)."""
    return tuple(_rows(provider))


@cache
def _table(provider: str) -> tuple[Instance, ...]:
    return tuple(one for one in _rows(provider) if one.region != "*")


def _rows(provider: str) -> Iterator[Instance]:
    import csv

    header, *body = lines("prices.csv")
    for row in csv.DictReader([header, *(line for line in body if line.startswith(f"{provider},"))]):
        if row["on_demand_usd_h"] and "retired" not in row["flag"]:
            yield Instance(
                name=row["item"],
                region=row["region"],
                accelerator=row["gpu_id"] or row["accelerator"],
                accelerators=figure(row["accelerator_count"]) or 0.0,
                vcpus=figure(row["vcpus"]) or 0.0,
                memory_gb=figure(row["memory_gb"]) or 0.0,
                usd_per_hour=float(row["on_demand_usd_h"]),
                as_of=row["as_of"],
            )
