"""The rules for the place: a known region, and one zone of it that has all the job's accelerators."""

from collections.abc import Iterable, Sequence

from stoker.hardware.explain import similar_accelerators
from stoker.hardware.faults import Fault, both, closest, either
from stoker.hardware.regions import accelerators_in, find_region, regions, regions_with, zones, zones_with

EXAMPLE_REGION = "us-central1"
REGIONS_SHOWN = 6


def place_faults(accelerators: Sequence[str], region: str) -> tuple[Fault, ...]:
    """What keeps a job with these accelerators (canonical names, each once) out of the region."""
    if find_region(region) is None:
        return (_no_such_region(region),)
    here = [name for name in accelerators if zones_with(region, [name])]
    faults = [_not_in_region(name, accelerators, region) for name in accelerators if name not in here]
    if len(here) > 1 and not zones_with(region, here):
        faults.append(_no_common_zone(here, accelerators, region))
    return tuple(faults)


def _no_such_region(region: str) -> Fault:
    of_zone = [name for name in regions() if region in zones(name)]
    if not region:
        found, why, fix = "no region", "a job runs in a region", f"name one, such as {EXAMPLE_REGION}"
    elif of_zone:
        found, why, fix = region, "that is a zone, not a region", f"use {of_zone[0]}"
    else:
        near = closest(region, regions(), limit=1) or [EXAMPLE_REGION]
        found, why, fix = region, "there is no such region", f"use {near[0]}"
    return Fault(role="", field="region", found=found, why=why, fix=fix)


def _not_in_region(name: str, accelerators: Sequence[str], region: str) -> Fault:
    """The region has none of one accelerator: better regions for the whole job, or for at least this one."""
    whole, alone = regions_with(accelerators), regions_with([name])
    why = f"no zone of {region if alone else 'any region'} is known to have {name}"
    if alone and not whole:
        why += f", and none anywhere has all of {both(accelerators)}"
    fix = f"run in {_some(whole or alone, region)}" if alone else f"use {either(similar_accelerators(name))}"
    return Fault(role="", field="region", found=f"{name} in {region}", why=why, fix=fix)


def _no_common_zone(here: Sequence[str], accelerators: Sequence[str], region: str) -> Fault:
    """Each accelerator is in the region, but no zone has them all: other regions, or a part of them in this one."""
    where = [f"{name} is in {both(_letters(zones_with(region, [name])))}" for name in here]
    together = [f"{both(names)} (zone {zone})" for zone, names in _largest_sets(here, region)]
    better = regions_with(accelerators)
    moves = [f"run in {_some(better, region)}"] if better else []
    if together:
        moves.append(f"stay in {region} with {either(together)}")
    moves.append("use one type of accelerator")
    return Fault(
        role="",
        field="zone",
        found=f"{both(here)} in {region}",
        why=f"all accelerators of a job must be in one zone, and in {region} {'; '.join(where)}",
        fix="; or ".join(moves),
    )


def _some(names: Sequence[str], region: str) -> str:
    """Regions as a phrase, those of the same area as `region` first; of many, the first few and how many more."""
    area = regions()[region].area
    nearest = sorted(names, key=lambda name: (regions()[name].area != area, name))
    shown = nearest[:REGIONS_SHOWN]
    return either(shown if len(nearest) == len(shown) else [*shown, f"{len(nearest) - len(shown)} others"])


def _largest_sets(wanted: Sequence[str], region: str) -> list[tuple[str, list[str]]]:
    """The zones that have more than one of the wanted, without those that another zone betters or equals."""
    kept: list[tuple[str, list[str]]] = []
    offers = [(zone, [name for name in wanted if name in accelerators_in(zone)]) for zone in zones(region)]
    for zone, names in sorted(offers, key=lambda offer: -len(offer[1])):
        if len(names) > 1 and not any(set(names) <= set(better) for _, better in kept):
            kept.append((zone, names))
    return kept


def _letters(zone_names: Iterable[str]) -> list[str]:
    return [zone.rpartition("-")[2] for zone in zone_names]
