"""Pack: a gang's replicas as near to each other as they can be: on one node, then in one rack."""

from __future__ import annotations

import numpy as np

from stoker.core.job import Placement
from stoker.core.spec import JobSpec, Machine
from stoker.scheduling.free import Free, Indices
from stoker.scheduling.gang import place_gang
from stoker.scheduling.tie_breaks import least

_RACKS = "pack.racks"


class Pack:
    """A node that has a replica of the gang, then one in a rack that has, then in the rack with the most room.

    Among equals the node with the most room for more of the gang, but a gang of one goes where it leaves the least.
    """

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, or None."""
        alone = spec.replicas == 1
        sign = 1 if alone else -1

        def choose(machine: Machine, gang: str, fitting: Indices, free: Free) -> int:
            far = np.full(len(free.nodes), 2, dtype=np.int8)
            racks, room = _racks(free), free.milli if machine.accelerator_milli else free.vcpus_milli
            on = list(free.on(gang))
            if on:
                far[np.isin(racks, racks[on]) & (racks >= 0)] = 1
                far[on] = 0
            rack_room = np.zeros(len(free.nodes), dtype=np.int64)
            if not alone and not on:
                totals = np.bincount(racks[fitting] + 1, weights=room[fitting], minlength=1)
                totals[0] = 0  # nodes of no rack are near to nobody
                rack_room[fitting] = -totals[racks[fitting] + 1].astype(np.int64)
            spoiled = free.device_count if not machine.accelerator_milli else far
            return least(fitting, far, spoiled, rack_room, sign * room, sign * free.vcpus_milli)

        return place_gang(gang, spec, free, choose)

    def learns(self, spec: JobSpec) -> None:
        """It goes by what is free alone."""


def _racks(free: Free) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rack of each node as a number; -1: unknown."""
    if _RACKS not in free.notes:
        names = sorted({node.rack for node in free.nodes if node.rack})
        number = {name: n for n, name in enumerate(names)} | {"": -1}
        free.notes[_RACKS] = np.array([number[node.rack] for node in free.nodes], dtype=np.int64)
    racks: np.ndarray[tuple[int], np.dtype[np.int64]] = free.notes[_RACKS]
    return racks
