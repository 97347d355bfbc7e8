"""What hardware costs per hour on Google Cloud, in US dollars before tax and discounts, with a date and its caveats.

A machine with GPUs attached costs its own row and one row per GPU; a machine with GPUs built in has one row for all.
A legacy type costs as what it stands for. Where nothing is known there is no price but a reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from stoker.hardware.accelerators import accelerators, find_accelerator
from stoker.hardware.limits import valid_counts
from stoker.hardware.machines import MachineType, find_machine_type
from stoker.hardware.regions import find_region, zones_with
from stoker.hardware.shapes import Shape
from stoker.hardware.table import figure, lines, members

PROVIDER = "gcp"
REFERENCE_REGION = "us-central1"  # its price stands in where a region's own is not known
NO_ZONE = "priced_but_no_zone_known"  # a price list names it, yet no zone has it: not to be offered

# Catalog generations beside real dates, by the year they start in, so that the latest and the oldest can be told.
GENERATIONS = {"sky-2022": "2022", "sky-v5": "2024", "sky-v6": "2024", "sky-v8": "2025"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price per hour, as old as its oldest part."""

    usd_per_hour: float
    as_of: str
    notes: tuple[str, ...]  # what a reader should know before trusting it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpriced:
    """No price, and why."""

    why: str


class Row(NamedTuple):
    """One line of the price table."""

    region: str
    on_demand_usd: float | None
    spot_usd: float | None
    as_of: str
    flags: tuple[str, ...]

    def usd(self, spot: bool) -> float | None:
        """The price by the hour of one such item."""
        return self.spot_usd if spot else self.on_demand_usd


class Part(NamedTuple):
    """So many times one item of the price table."""

    times: float
    item: str
    pack: int  # how many accelerators the item is; 0: it is a machine
    accelerator: str  # the one it is or has built in, "" for a bare machine


def hourly_price(machine_type: str, accelerator: str, count: int, region: str, spot: bool = False) -> Price | None:
    """The price of one machine with its accelerators; None where `quote` gives only a reason."""
    answer = quote(machine_type, accelerator, count, region, spot)
    return answer if isinstance(answer, Price) else None


def quote(machine_type: str, accelerator: str, count: int, region: str, spot: bool = False) -> Price | Unpriced:
    """The price of one machine with its accelerators (none named: what is built in), or why there is none."""
    machine = find_machine_type(machine_type)
    if machine is None:
        return Unpriced(why=f"there is no machine type {machine_type!r}")
    if find_region(region) is None:
        return Unpriced(why=f"there is no region {region!r}")
    known = find_accelerator(accelerator)
    asked = (known.name if known is not None else accelerator, count)
    name, number = asked if asked != ("", 0) else _built_in(machine)
    if (name, number) != _built_in(machine) and number not in valid_counts(machine_type, name):
        return Unpriced(why=f"{machine_type} is not sold with {count} x {accelerator or 'accelerators of no type'}")
    return _total(_price(part, region, spot) for part in _parts(machine, name, number))


def quote_all(shapes: Iterable[Shape], region: str, spot: bool = False) -> Price | Unpriced:
    """The price of a whole job, all replicas of all its shapes together, or why there is none."""
    priced: list[Price | Unpriced] = []
    for shape in shapes:
        one = quote(shape.machine.name, shape.accelerator, shape.accelerator_count, region, spot)
        priced.append(_times(one, shape.count))
    return _total(priced) if priced else Unpriced(why="nothing is asked for")


def _built_in(machine: MachineType) -> tuple[str, int]:
    """What is built in; the slice of a card which the smallest g4 types have is inside their machine row anyway."""
    return machine.accelerator, int(machine.accelerator_count)


def _parts(machine: MachineType, accelerator: str, count: int) -> list[Part]:
    """What a machine is made of in the price table."""
    if machine.accelerator and not machine.legacy and not machine.is_tpu_host:
        return [Part(1, machine.name, 0, accelerator)]
    host = Part(1, machine.gce_equivalent, 0, "")
    if not accelerator:
        return [host]
    name = accelerators()[accelerator].gce_name
    pack = count if (name, count) in _table() else 1  # a TPU is sold as a slice of so many, a GPU one by one
    attached = Part(count / pack, name, pack, accelerator)
    return [attached] if machine.is_tpu_host else [host, attached]  # a TPU's price includes its host


def _price(part: Part, region: str, spot: bool) -> Price | Unpriced:
    """The price of one part: the region's own, or another region's where this one has the hardware and no price."""
    rows = _table().get((part.item, part.pack), ())
    listed = not part.accelerator or bool(zones_with(region, [part.accelerator]))
    unlisted = f"no zone of {region} is listed with {part.accelerator}"
    own = [row for row in rows if row.region == region and NO_ZONE not in row.flags]
    borrowed = [row for row in rows if row.region != region and listed]
    for row in (*_best_first(own), *_best_first(borrowed)):
        usd = row.usd(spot)
        if usd is not None:
            notes = _notes(row, part.item, region, spot) + (() if listed else (unlisted,))
            return Price(usd_per_hour=part.times * usd, as_of=row.as_of, notes=notes)
    if not own and not listed:
        return Unpriced(why=unlisted)
    if not rows:
        return Unpriced(why=f"no price of {part.item} is known")
    return Unpriced(why=f"{part.item} is not sold {'at spot prices' if spot else 'on demand, only at spot prices'}")


def _best_first(rows: Iterable[Row]) -> list[Row]:
    """The reference region before the others, the latest before older ones."""
    latest_first = sorted(rows, key=lambda row: _age(row.as_of), reverse=True)
    return sorted(latest_first, key=lambda row: (row.region != REFERENCE_REGION, row.region))


def _notes(row: Row, item: str, region: str, spot: bool) -> tuple[str, ...]:
    """What the reader of this price should know."""
    notes = []
    if row.region != region:
        notes.append(f"{item} priced as in {row.region}")
    if any(flag.startswith("retired") for flag in row.flags):
        notes.append(f"{item} is retired on Google Cloud: its last known price, of {_age(row.as_of)}")
    if spot and "spot_under_10pct" in row.flags:
        notes.append(f"the spot price of {item} is under a tenth of on demand: do not count on it")
    return tuple(notes)


def _times(price: Price | Unpriced, count: int) -> Price | Unpriced:
    if isinstance(price, Unpriced):
        return price
    return Price(usd_per_hour=price.usd_per_hour * count, as_of=price.as_of, notes=price.notes)


def _total(priced: Iterable[Price | Unpriced]) -> Price | Unpriced:
    """The sum, with the oldest date and every note once; one unknown part makes it unknown."""
    prices = []
    for price in priced:
        if isinstance(price, Unpriced):
            return price
        prices.append(price)
    return Price(
        usd_per_hour=round(sum(price.usd_per_hour for price in prices), 6),
        as_of=min((price.as_of for price in prices), key=_age),
        notes=tuple(dict.fromkeys(note for price in prices for note in price.notes)),
    )


def _age(as_of: str) -> str:
    return GENERATIONS.get(as_of, as_of)


@cache
def _table() -> Mapping[tuple[str, int], tuple[Row, ...]]:
    """The rows of our one provider by item: a machine type with pack 0, or an accelerator with its pack."""
    import csv

    header, *body = lines("prices.csv")
    ours = (line for line in body if line.startswith(f"{PROVIDER},"))  # half the file; not parsed, it costs nothing
    found: dict[tuple[str, int], list[Row]] = {}
    for row in csv.DictReader([header, *ours]):
        attached = row["unit"] == "accelerator"
        key = (row["accelerator"], int(row["accelerator_count"])) if attached else (row["item"], 0)
        found.setdefault(key, []).append(
            Row(
                region=row["region"],
                on_demand_usd=figure(row["on_demand_usd_h"]),
                spot_usd=figure(row["spot_usd_h"]),
                as_of=row["as_of"],
                flags=members(row["flag"]),
            )
        )
    return MappingProxyType({key: tuple(rows) for key, rows in found.items()})
