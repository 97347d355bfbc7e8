"""Where a cluster is: Ray's launcher works in one region of a cloud, and on Google Cloud in one zone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.core.site import Pool
from stoker.hardware.regions import find_region, zones_with

from .base import Options, refused

_ZONE_OF_GOOGLE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
_CHOOSE = "render one file for each place: --pool NAME takes only the pools that are named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where machines are ordered, in the cloud's words, and the pools that are there."""

    region: str
    zone: str  # empty: wherever the cloud has room
    pools: tuple[Pool, ...]
    translated: bool = False  # the site file speaks of a place of another cloud, for which this one stands

    def zone_of(self, pool: Pool) -> str:
        """The zone that a pool's machines say they are in: the site file's name of it."""
        return pool.zone or ("" if self.translated else self.zone)


def google_place(pools: Sequence[Pool], wanted: str) -> Place:
    """One zone of Google's. `wanted`: a zone whose pools are taken, or empty if all of them are in one."""
    if wanted:
        return _in_zone(pools, wanted)
    zones, regions = _named(pool.zone for pool in pools), _named(pool.region for pool in pools)
    if len(zones) > 1:
        raise refused(
            "--zone",
            f"the pools are in {' and '.join(zones)}, and Ray works in one zone of Google's",
            fix=f"render one file for each: --zone {zones[0]}",
        )
    if not zones:
        accelerators = {pool.accelerator for pool in pools if pool.accelerators}
        having = zones_with(regions[0], accelerators) if len(regions) == 1 else []
        hint = f", such as {having[0]}" if having else ""
        raise refused("--zone", f"no pool says its zone, and Ray works in one zone of Google's: name it{hint}")
    return _in_zone(pools, zones[0], only=False)


def foreign_place(pools: Sequence[Pool], options: Options, cloud: str, example: str, *, many_zones: bool) -> Place:
    """One region of another cloud's. Pools of Google's regions need `options.region`, which then stands for theirs."""
    there = [pool for pool in pools if pool.region == options.region]
    pools = there or list(pools)
    regions = _named(pool.region for pool in pools)
    if len(regions) > 1:
        raise refused(
            "--region", f"the pools are in {' and '.join(regions)}, and a cluster is in one region", fix=_CHOOSE
        )
    region = options.region or (regions[0] if regions and find_region(regions[0]) is None else "")
    if not region:
        where = f"the pools are in {regions[0]}, which is Google's" if regions else "no pool says its region"
        raise refused("--region", f"{where}: say which region of {cloud}'s stands for it, such as {example}")
    translated = region not in regions
    if options.zone and not translated:
        pools = [pool for pool in pools if pool.zone in ("", options.zone)]
        if not pools:
            raise refused("--zone", f"no pool is in {options.zone}")
    zones = _named(pool.zone for pool in pools)
    if len(zones) > 1 and (translated or not many_zones):
        what = f"one zone of {cloud}'s would stand for both" if translated else f"Ray has one for all pools on {cloud}"
        raise refused("--zone", f"the pools are in {' and '.join(zones)}, and {what}", fix=_CHOOSE)
    own = zones[0] if len(zones) == 1 and not translated and not many_zones else ""
    return Place(region=region, zone=options.zone or own, pools=tuple(pools), translated=translated)


def _in_zone(pools: Sequence[Pool], zone: str, *, only: bool = True) -> Place:
    """The pools of a zone of Google's. `only`: those that are elsewhere are left out, not refused."""
    if not _ZONE_OF_GOOGLE.fullmatch(zone):
        raise refused("--zone", f"{zone[:60]!r} is not a zone of Google's, such as us-west1-a")
    region = zone.rpartition("-")[0]
    there = [pool for pool in pools if pool.zone == zone or (not pool.zone and pool.region in ("", region))]
    elsewhere = [pool for pool in pools if pool not in there]
    if elsewhere and not only:
        named = elsewhere[0]
        raise refused(f"pools.{named.name}", f"is in {named.zone or named.region}, others are in {zone}", fix=_CHOOSE)
    if not there:
        zones = _named(pool.zone or pool.region for pool in pools)
        raise refused("--zone", f"no pool is in {zone}: they are in {', '.join(zones)}")
    for pool in there:
        having = zones_with(region, [pool.accelerator]) if pool.accelerators else []
        if having and zone not in having:
            raise refused(
                "--zone", f"{zone} has no {pool.accelerator}, which the pool {pool.name} needs: {', '.join(having)}"
            )
    return Place(region=region, zone=zone, pools=tuple(there))


def _named(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})
