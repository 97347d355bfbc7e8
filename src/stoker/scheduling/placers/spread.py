"""Spread: the replicas of a gang go to as many nodes as there are, the emptiest first."""

from __future__ import annotations

import numpy as np

from stoker.core.job import Placement
from stoker.core.spec import JobSpec, Machine
from stoker.scheduling.free import Free, Indices
from stoker.scheduling.gang import place_gang
from stoker.scheduling.tie_breaks import least


class Spread:
    """The node with the fewest replicas of the gang, then the fewest gangs, then the most free devices, vCPUs, memory."""

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, or None."""
        return place_gang(gang, spec, free, choose)

    def learns(self, spec: JobSpec) -> None:
        """It goes by what is free alone."""


def choose(machine: Machine, gang: str, fitting: Indices, free: Free) -> int:
    """The node that is least used."""
    mine = np.zeros(len(free.nodes), dtype=np.int32)
    for node, count in free.on(gang).items():
        mine[node] = count
    spoiled = free.device_count if not machine.accelerator_milli else mine
    return least(fitting, spoiled, mine, free.holders, -free.milli, -free.vcpus_milli, -free.memory_mib)
