"""How many accelerators a machine type takes: the printed table, and the rule from which the table follows.

The table is the truth. The rule explains it: a GPU serves only so many vCPUs and so much memory, so a machine needs
enough GPUs to serve all it has. The tests hold one against the other, cell by cell.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stoker.hardware.machines import find_machine_type, machine_types
from stoker.hardware.table import members, rows

TRAINING = "aip"  # the rule that AI Platform Training applied, in all zones alike
COMPUTE_ENGINE = "gce"  # what Compute Engine allows today, in some zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest machine that this many accelerators serve together."""

    accelerator: str
    count: int
    max_vcpus: float
    max_memory_gb: float

    def serves(self, vcpus: float, memory_gb: float) -> bool:
        """Whether a machine of this size is served."""
        return vcpus <= self.max_vcpus and memory_gb <= self.max_memory_gb

    def times(self, count: int) -> "Limit":
        """What `count` times as many would serve if nothing else stood in the way."""
        return Limit(
            accelerator=self.accelerator,
            count=self.count * count,
            max_vcpus=self.max_vcpus * count,
            max_memory_gb=self.max_memory_gb * count,
        )


def valid_counts(machine_type: str, accelerator: str) -> tuple[int, ...]:
    """How many of this accelerator the machine type takes, by the table; () means none at all."""
    return _table().get((machine_type, accelerator), ())


def derived_counts(
    machine_type: str, accelerator: str, *, scope: str = TRAINING, exceptions: bool = True
) -> tuple[int, ...]:
    """The counts by the rule; without `exceptions`, n accelerators serve n times what one does."""
    machine = find_machine_type(machine_type)
    if machine is None:
        return ()
    given = limits(accelerator, scope)
    applied = given if exceptions else [given[0].times(limit.count) for limit in given]
    return tuple(sorted({limit.count for limit in applied if limit.serves(machine.vcpus, machine.memory_gb)}))


def limits(accelerator: str, scope: str = TRAINING) -> tuple[Limit, ...]:
    """The limits of an accelerator, the smallest count first; () where it comes built into its machines."""
    return _limits().get((accelerator, scope), ())


def counts_sold(accelerator: str) -> tuple[int, ...]:
    """Every count in which this accelerator is sold on some machine type."""
    return tuple(sorted({n for (_, name), counts in _table().items() if name == accelerator for n in counts}))


def sold_on(accelerator: str) -> tuple[str, ...]:
    """The machine types that take this accelerator, in the order of the table."""
    return tuple(machine for (machine, name), counts in _table().items() if name == accelerator and counts)


def sold_with(machine_type: str) -> tuple[str, ...]:
    """The accelerators that this machine type takes, in the order of the table."""
    return tuple(name for (machine, name), counts in _table().items() if machine == machine_type and counts)


def sold_accelerators() -> tuple[str, ...]:
    """The accelerators that some machine type takes."""
    return tuple(dict.fromkeys(name for (_, name), counts in _table().items() if counts))


@cache
def _table() -> Mapping[tuple[str, str], tuple[int, ...]]:
    cells = {
        (row["machine_type"], row["accelerator_type"]): tuple(int(n) for n in members(row["valid_counts"]))
        for row in rows("accelerator_counts.csv")
    }
    for machine in machine_types().values():  # the newer TPU hosts have no row, yet take what is built in
        if machine.offered and not machine.legacy and machine.accelerator:
            cells.setdefault((machine.name, machine.accelerator), (int(machine.accelerator_count),))
    return MappingProxyType(cells)


@cache
def _limits() -> Mapping[tuple[str, str], tuple[Limit, ...]]:
    grouped: dict[tuple[str, str], tuple[Limit, ...]] = {}
    for row in rows("accelerator_limits.csv"):
        key = (row["accelerator_type"], row["scope"])
        limit = Limit(
            accelerator=row["accelerator_type"],
            count=int(row["count"]),
            max_vcpus=float(row["max_vcpus"]),
            max_memory_gb=float(row["max_memory_gb"]),
        )
        grouped[key] = (*grouped.get(key, ()), limit)
    return MappingProxyType(grouped)
