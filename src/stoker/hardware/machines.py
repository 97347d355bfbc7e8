"""The machine types: Compute Engine's, and the older legacy names that stand for one of them with its GPUs included."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stoker.hardware.accelerators import canonical_name
from stoker.hardware.table import members, rows

LEGACY = "legacy"
SIZED_BY_VCPUS = ("standard", "highmem", "highcpu", "custom")  # kinds whose names end in their vCPUs
DEFAULT_MACHINE_TYPE = "n1-standard-4"  # the smallest general one on offer, named where nothing nearer is known


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A machine that a replica may run on, with the accelerators it brings along."""

    name: str
    series: str  # n1, a2 …, or "legacy"
    vcpus: float
    memory_gb: float
    accelerator: str  # canonical name of what is built in, "" if nothing; a TPU machine's default
    accelerator_count: float  # g4 has fractions
    legacy: bool
    gce_equivalent: str  # the Compute Engine type behind it; its own name if it is one
    offered: bool  # training may ask for it
    gpu_attachable: bool  # GPUs are chosen beside it, not built in

    @property
    def is_tpu_host(self) -> bool:
        """Whether it stands for a TPU board: its own vCPUs and memory are then not the user's (and 0 for cloud_tpu)."""
        return self.accelerator.startswith("TPU_")


@cache
def machine_types() -> Mapping[str, MachineType]:
    """Every known machine type by its name, those not on offer included."""
    known = [*_compute_engine(), *_legacy()]
    return MappingProxyType({machine.name: machine for machine in known})


def find_machine_type(name: str) -> MachineType | None:
    """The machine type of exactly this name."""
    return machine_types().get(name)


def nearest_machine_type(name: str) -> str:
    """The offered type nearest to a name that is not offered or does not exist; "" if none resembles it.

    `n1-standard-1` and `e2-standard-2` are near n1-standard-4: the same kind of machine with the next number of vCPUs.
    """
    from difflib import get_close_matches

    offered = [machine for machine in machine_types().values() if machine.offered]
    known = find_machine_type(name)
    if known is not None:
        return _nearest([m for m in offered if m.series == known.series], known.vcpus, kind_of(name))
    series, kind, vcpus = _parts(name)
    if vcpus and kind in SIZED_BY_VCPUS:
        same_series = [m for m in offered if m.series == series]
        n1 = [m for m in offered if m.series == "n1"]
        return _nearest(same_series or n1, vcpus, kind)
    names = {machine.name.replace("_", "-"): machine.name for machine in offered}  # legacy names have underscores
    close = get_close_matches(name.strip().lower().replace("_", "-"), names, n=1)
    return names[close[0]] if close else DEFAULT_MACHINE_TYPE if is_foreign(name) else ""


def is_foreign(name: str) -> bool:
    """Whether a name looks like a Compute Engine type of a series that training never offered: `e2-medium`."""
    series, kind, _ = _parts(name)
    looks_real = kind == "custom" or re.fullmatch(r"[a-z]\d[a-z]{0,2}", series) is not None
    ours = {machine.series for machine in machine_types().values()}
    return looks_real and (kind == "custom" or series not in ours)


def kind_of(name: str) -> str:
    """The middle of a Compute Engine name: `highmem` of n1-highmem-8."""
    return _parts(name)[1]


def _parts(name: str) -> tuple[str, str, float]:
    """`n1-highmem-8` is n1, highmem, 8; without a number at its place it is 0. Custom types say their kind first."""
    words = name.split("-")
    if words[0] == "custom":
        words.insert(0, "n1")
    series, kind, size, *_ = [*words, "", "", ""]
    is_size = size.isascii() and size.isdigit() and len(size) <= 6
    return series, kind, float(size) if is_size else 0.0


def _nearest(choices: list[MachineType], vcpus: float, kind: str) -> str:
    """The choice nearest in vCPUs, among those of the same kind if there are any; of two, the larger."""
    same_kind = [m for m in choices if kind_of(m.name) == ("standard" if kind == "custom" else kind)]
    ranked = sorted(same_kind or choices, key=lambda m: (abs(m.vcpus - vcpus), -m.vcpus))
    return ranked[0].name if ranked else ""


def _compute_engine() -> Iterator[MachineType]:
    for row in rows("machine_types.csv"):
        yield MachineType(
            name=row["machine_type"],
            series=row["series"],
            vcpus=float(row["vcpus"]),
            memory_gb=float(row["memory_gb"]),
            accelerator=canonical_name(row["bundled_accelerator"]),
            accelerator_count=float(row["bundled_count"]),
            legacy=False,
            gce_equivalent=row["machine_type"],
            offered="yes" in (row["aip_training"], row["vertex_training"]),
            gpu_attachable=row["gpu_attachable"] == "yes",
        )


def _legacy() -> Iterator[MachineType]:
    for row in rows("legacy_machine_types.csv"):
        yield MachineType(
            name=row["machine_type"],
            series=LEGACY,
            vcpus=float(row["vcpus"] or 0),
            memory_gb=float(row["memory_gb"] or 0),
            accelerator=next(iter(members(row["accelerator_type"])), ""),
            accelerator_count=float(row["accelerator_count"]),
            legacy=True,
            gce_equivalent=row["gce_equivalent"],
            offered=True,
            gpu_attachable=False,
        )
