"""A GPU of this machine, and how to ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as its driver names it."""

    index: int
    uuid: str
    product: str  # "NVIDIA H200", "Tesla T4"
    memory_bytes: int


class Driver(Protocol):
    """A way to read devices."""

    def devices(self) -> Sequence[Device]:
        """The GPUs of this machine; none where there is no driver. Never raises."""
        ...


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
