"""A GPU of this machine, and which of them are ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as its driver names it."""

    index: int
    uuid: str
    product: str  # "NVIDIA H200", "Tesla T4"
    memory_bytes: int
    pci_bus_id: str = ""
    mig_profile: str = ""  # of a part of a GPU: `1g.10gb`
    mig_id: int | None = None  # and the number of its GPU instance


def visible(devices: Sequence[Device], setting: str | None) -> list[Device]:
    """The devices that CUDA_VISIBLE_DEVICES leaves to us: all if it is not set, as CUDA reads it if it is."""
    if setting is None:
        return list(devices)
    found: list[Device] = []
    for name in filter(None, (part.strip() for part in setting.split(","))):
        match = [d for d in devices if str(d.index) == name or d.uuid.startswith(name)]
        if len(match) != 1:
            break  # CUDA stops at the first name that it does not know
        found += [d for d in match if d not in found]
    return found
