"""Best fit: each replica goes where it leaves the least behind."""

from __future__ import annotations

from stoker.core.job import Placement
from stoker.core.spec import JobSpec, Machine
from stoker.scheduling.free import Free, Indices
from stoker.scheduling.gang import place_gang
from stoker.scheduling.tie_breaks import least


class BestFit:
    """The node with the least free devices that fits, then the least vCPUs and memory, then by name.

    Replicas without accelerators prefer nodes that have none.
    """

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, or None."""
        return place_gang(gang, spec, free, choose)

    def learns(self, spec: JobSpec) -> None:
        """It goes by what is free alone."""


def choose(machine: Machine, gang: str, fitting: Indices, free: Free) -> int:
    """The node that is left with the least."""
    devices = free.milli if machine.accelerator_milli else free.device_count
    return least(fitting, devices, free.vcpus_milli, free.memory_mib)
