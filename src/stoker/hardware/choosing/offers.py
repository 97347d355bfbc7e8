"""What there is to train on: accelerators of the catalog with their machines and prices, machines without any, systems to buy.

What the site itself has comes as offers, too (`insight/site_offers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from stoker.hardware.accelerators import Accelerator, accelerators
from stoker.hardware.gpus import Gpu
from stoker.hardware.instances import PROVIDERS, Instance, all_instances
from stoker.hardware.limits import counts_sold, sold_on, valid_counts
from stoker.hardware.machines import find_machine_type, machine_types
from stoker.hardware.prices import PROVIDER, REFERENCE_REGION, Price, quote
from stoker.hardware.regions import regions_with, zones_with

from .systems import systems

CPU = "CPU"
SYSTEM = "system"
NOT_KNOWN = "no price by the hour is known"
NOT_ORDERED = "Stoker orders no machines there"
PRIVATE_HOSTS = "a private host's, who may take it back"
_ORDERED = ("gcp", "aws", "azure")
_SURVEY = "2025-03-07"  # a table of many clouds, rounded, and older than the clouds' own lists
_COMMUNITY = "_COMMUNITY"  # of private hosts: only where there is no other
_CPU_KINDS = ("n1-standard-", "n1-highmem-")


class Place(StrEnum):
    """Where it is."""

    SITE = "site"  # a machine of this site
    POOL = "pool"  # this site orders it when a job needs it
    CLOUD = "cloud"
    PURCHASE = "purchase"  # it is bought, and no cloud of the catalog rents it


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A machine with so many devices of a kind, or with none: then its processors train."""

    place: Place
    name: str  # the accelerator, as Stoker calls it; CPU; DGX A100
    chip: Gpu | None = None  # None: the processors
    count: int = 0
    machine: str = ""
    provider: str = ""  # empty: the site's own
    region: str = ""
    vcpus: float = 0.0
    memory_gb: float = 0.0
    device_bytes: float = 0.0  # of each device
    usd_per_hour: float | None = None
    notes: tuple[str, ...] = ()
    regions: int = 0  # so many regions have it
    free: float | None = None  # of a site's own devices; None: it is no machine of the site
    whole: float = 0.0  # how many of them the site has

    @property
    def is_cpu(self) -> bool:
        """Whether it has no accelerator."""
        return self.chip is None

    @property
    def is_own(self) -> bool:
        """Whether it is there already."""
        return self.place is Place.SITE

    @property
    def market(self) -> str:
        """consumer, workstation, data-centre; system for a whole machine that is bought; CPU."""
        if self.chip is None:
            return CPU
        return SYSTEM if self.place is Place.PURCHASE and self.count > 1 else self.chip.market

    @property
    def memory_bytes(self) -> float:
        """What a model has: of a device, or of the machine if it has none."""
        return self.memory_gb * 1e9 if self.chip is None else self.device_bytes


@cache
def catalog_offers(region: str = REFERENCE_REGION, *, with_tpus: bool = False) -> tuple[Offer, ...]:
    """What clouds rent, each accelerator in each count at its cheapest, and what can only be bought."""
    return tuple(_catalog_offers(region, with_tpus))


def _catalog_offers(region: str, with_tpus: bool) -> Iterator[Offer]:
    yield from _cpu_offers(region)
    for accelerator in accelerators().values():
        chip = accelerator.chip
        if chip is None or not chip.memory_gb or (accelerator.is_tpu and not with_tpus):
            continue
        if accelerator.is_tpu and accelerator.name.endswith("_POD"):
            continue
        yield from _of_accelerator(accelerator, chip, region)
    for system in systems():
        memory = (system.chip.memory_gb or 0.0) * 1e9
        yield Offer(
            place=Place.PURCHASE,
            name=system.name,
            chip=system.chip,
            count=system.accelerators,
            memory_gb=system.memory_gb,
            device_bytes=memory,
            notes=(f"{system.accelerators} x {system.chip.name}, bought whole",),
        )


def _of_accelerator(accelerator: Accelerator, chip: Gpu, region: str) -> Iterator[Offer]:
    base = Offer(
        place=Place.CLOUD,
        name=accelerator.name,
        chip=chip,
        device_bytes=(chip.memory_gb or 0.0) * 1e9,
        regions=len(regions_with([accelerator.name])),
    )
    elsewhere = _instances().get(chip.gpu_id, {})
    sold = {count: _at_google(base, count, region) for count in counts_sold(accelerator.name)}
    there = {count: offer for count, offer in sold.items() if offer is not None}
    for count in sorted({*there, *elsewhere}):
        found = [offer for offer in (there.get(count),) if offer is not None]
        if count in elsewhere:
            provider, one = elsewhere[count]
            found.append(_of_instance(base, provider, one, count))
        yield min(found, key=lambda offer: offer.usd_per_hour or 0.0)
    if not there and not elsewhere and not accelerator.is_tpu:  # a TPU is rented alone: without a price it is no offer
        yield replace(base, place=Place.PURCHASE, count=1, notes=(NOT_KNOWN,))


def _at_google(base: Offer, count: int, region: str) -> Offer | None:
    """The cheapest machine of Google's with so many, in the region or priced as in another; None: nobody knows its price."""
    found: list[tuple[float, str, Price]] = []
    listed = bool(zones_with(region, [base.name]))
    for name in sold_on(base.name):
        machine = find_machine_type(name)
        if machine is None or machine.legacy or count not in valid_counts(name, base.name):
            continue
        price = quote(name, base.name, count, region if listed else REFERENCE_REGION)
        if isinstance(price, Price):
            found.append((price.usd_per_hour, name, price))
    if not found or not base.regions:
        return None
    _, name, price = min(found, key=lambda one: one[:2])
    machine = machine_types()[name]
    notes = price.notes if listed else (f"no zone of {region} has it", *price.notes)
    return replace(
        base,
        count=count,
        machine=name,
        provider=PROVIDER,
        region=region if listed else "",
        vcpus=machine.vcpus,
        memory_gb=machine.memory_gb,
        usd_per_hour=price.usd_per_hour,
        notes=notes,
    )


def _of_instance(base: Offer, provider: str, one: Instance, count: int) -> Offer:
    return replace(
        base,
        count=count,
        machine=one.name,
        provider=provider,
        region="" if one.region == "*" else one.region,
        vcpus=one.vcpus,
        memory_gb=one.memory_gb,
        usd_per_hour=one.usd_per_hour,
        notes=(
            *(() if provider in _ORDERED else (NOT_ORDERED,)),
            *((PRIVATE_HOSTS,) if one.name.endswith(_COMMUNITY) else ()),
        ),
        regions=max(base.regions, 1),
    )


@cache
def _instances() -> Mapping[str, Mapping[int, tuple[str, Instance]]]:
    """By chip and count: the cheapest machine of a cloud other than Google's, and whose it is."""
    found: dict[str, dict[int, tuple[str, Instance]]] = {}
    for provider in PROVIDERS:
        for one in all_instances(provider):
            count = int(one.accelerators)
            if count < 1 or count != one.accelerators or one.as_of == _SURVEY:
                continue
            known = found.setdefault(one.accelerator, {}).get(count)
            if known is None or _preference(one) < _preference(known[1]):
                found[one.accelerator][count] = provider, one
    return found


def _preference(one: Instance) -> tuple[bool, float]:
    return one.name.endswith(_COMMUNITY), one.usd_per_hour


def _cpu_offers(region: str) -> Iterator[Offer]:
    for machine in machine_types().values():
        if not machine.name.startswith(_CPU_KINDS) or not machine.offered:
            continue
        price = quote(machine.name, "", 0, region)
        if isinstance(price, Price):
            yield Offer(
                place=Place.CLOUD,
                name=CPU,
                machine=machine.name,
                provider=PROVIDER,
                region=region,
                vcpus=machine.vcpus,
                memory_gb=machine.memory_gb,
                usd_per_hour=price.usd_per_hour,
                notes=price.notes,
                regions=1,
            )
