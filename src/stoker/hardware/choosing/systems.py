"""Whole machines of GPUs that are bought: DGX."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.hardware.gpus import Gpu, gpus
from stoker.hardware.table import rows


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A machine with its GPUs, as its vendor sells it."""

    system: str
    name: str
    chip: Gpu
    accelerators: int
    memory_gb: float  # of the machine
    year: int
    note: str


@cache
def systems() -> tuple[System, ...]:
    """Every known system, the oldest first."""
    return tuple(
        System(
            system=row["system"],
            name=row["name"],
            chip=gpus()[row["gpu_id"]],
            accelerators=int(row["accelerators"]),
            memory_gb=float(row["system_memory_gb"]),
            year=int(row["year"]),
            note=row["note"],
        )
        for row in rows("systems.csv")
    )
