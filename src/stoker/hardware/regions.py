"""The regions and their zones, and which zone has which accelerators.

All accelerators of one job must be in one zone. Which zone has what changed over the years, so two snapshots are read:
for the accelerators of AI Platform Training the one its documentation speaks of, for newer ones the latest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stoker.hardware.accelerators import accelerators, find_accelerator
from stoker.hardware.table import members, rows

TRAINING_SNAPSHOT = "aip-seed"
LATEST_SNAPSHOT = "sky-v8"
TRAINING_GPUS = frozenset(f"NVIDIA_TESLA_{chip}" for chip in ("K80", "P4", "P100", "T4", "V100", "A100"))

# The dump of zone letters is older than the newest regions, and each of the newer ones opened with these three.
NEWER_REGION_LETTERS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region, where it lies, and its zones."""

    name: str
    location: str
    area: str
    zones: tuple[str, ...]
    aip_training: bool  # AI Platform Training ran here
    aip_gpus: bool  # and its documentation lists it among the regions with GPUs


@cache
def regions() -> Mapping[str, Region]:
    """Every known region by its name."""
    return MappingProxyType({row["region"]: _region(row) for row in rows("regions.csv")})


def find_region(name: str) -> Region | None:
    """The region of exactly this name."""
    return regions().get(name)


def zones(region: str) -> tuple[str, ...]:
    """The zones of a region, () if there is no such region."""
    found = find_region(region)
    return found.zones if found is not None else ()


def zones_with(region: str, accelerator_names: Iterable[str]) -> list[str]:
    """The zones of the region that have every one of these accelerators; with none named, all its zones."""
    wanted = {_canonical(name) for name in accelerator_names}
    return [zone for zone in zones(region) if wanted <= accelerators_in(zone)]


def regions_with(accelerator_names: Iterable[str]) -> list[str]:
    """The regions with at least one zone that has every one of these accelerators."""
    wanted = tuple(accelerator_names)
    return [region for region in regions() if zones_with(region, wanted)]


def accelerators_in(zone: str) -> frozenset[str]:
    """The canonical names of the accelerators which a zone has."""
    return _accelerators_by_zone().get(zone, frozenset())


def _canonical(name: str) -> str:
    found = find_accelerator(name)
    return found.name if found is not None else name


def _region(row: dict[str, str]) -> Region:
    letters = members(row["zone_letters"]) or NEWER_REGION_LETTERS
    return Region(
        name=row["region"],
        location=row["location"],
        area=row["area"],
        zones=tuple(f"{row['region']}-{letter}" for letter in letters),
        aip_training=row["aip_training"] == "yes",
        aip_gpus=row["gpu_region_seed_001"] == "yes",
    )


@cache
def _accelerators_by_zone() -> Mapping[str, frozenset[str]]:
    names = {accelerator.gce_name: accelerator.name for accelerator in accelerators().values()}
    found: dict[str, set[str]] = {}
    for row in rows("accelerator_zones.csv"):
        name = names[row["gce_accelerator"]]
        if row["snapshot"] == (TRAINING_SNAPSHOT if name in TRAINING_GPUS else LATEST_SNAPSHOT):
            found.setdefault(row["zone"], set()).add(name)
    return MappingProxyType({zone: frozenset(names) for zone, names in found.items()})
