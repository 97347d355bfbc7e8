"""FGD: fragmentation gradient descent, as published at USENIX ATC 2023 ("Beware of Fragmentation").

A replica goes where idle devices lose the least use to the typical replica (`pricing/typical.py`). Two details are in the
published code and not in the paper, and the figures depend on both: the gradient is squeezed into 100 levels, and of nodes
of one level the first by name is taken.

What is typical is learnt from the jobs that come. As published it is known in advance: `Fgd(known=…)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Placement
from stoker.core.spec import WHOLE_DEVICE_MILLI, JobSpec, Machine
from stoker.scheduling.base import Choice
from stoker.scheduling.free import Free, Indices
from stoker.scheduling.gang import place_gang
from stoker.scheduling.pricing.demand import Demand, Learner
from stoker.scheduling.pricing.fleet import fleet_of
from stoker.scheduling.pricing.scores import Row, Rows
from stoker.scheduling.pricing.typical import Rooms, Typical

Numbers = NDArray[np.float64]

LEVELS = 100
_NOTE = "fgd"


class Fgd:
    """The node whose idle devices lose the least of their use to the typical replica (fragmentation gradient descent)."""

    def __init__(self, known: Iterable[JobSpec] = ()) -> None:
        """`known`: the jobs that will come, as far as their mix is known in advance; then nothing is learnt."""
        self._learner = Learner()
        self._learner.demand = Demand.of(known)
        self._is_known = bool(self._learner.demand.weights)

    def learns(self, spec: JobSpec) -> None:
        """Count what the job asks for. To be told once of each job; `place` teaches nothing."""
        if not self._is_known:
            self._learner.add(spec)

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, or None."""
        gradient: _Gradient | None = free.notes.get(_NOTE)
        if gradient is None or gradient.demand is not self._learner.demand:
            gradient = free.notes[_NOTE] = _Gradient(free, self._learner.demand)
        return place_gang(gang, spec, free, gradient.choose)


class _Gradient:
    """How useless each node's idle devices become by one replica more."""

    def __init__(self, free: Free, demand: Demand) -> None:
        fleet, self._kinds = fleet_of(free)
        self.demand = demand
        self._typical = Typical(demand, fleet)
        self._rows = Rows(len(free.nodes))

    def choose(self, machine: Machine, gang: str, fitting: Indices, free: Free) -> Choice:
        """The node, and of which device a share is taken."""
        row = self._rows.of(machine)
        stale = row.stale(free)
        if stale.size:
            self._score(row, stale, free)
        node = int(fitting[row.scores[fitting].argmax()])
        if 0 < machine.accelerator_milli < WHOLE_DEVICE_MILLI:
            return node, (int(row.devices[node]),)
        return node

    def _score(self, row: Row, nodes: Indices, free: Free) -> None:
        before, kinds = self._typical.rooms(free, nodes), self._kinds[nodes]
        now = self._typical.useless(before, kinds)
        milli = row.machine.accelerator_milli
        if not 0 < milli < WHOLE_DEVICE_MILLI:
            after = self._less(before, row, np.full(len(nodes), WHOLE_DEVICE_MILLI), row.machine.accelerators)
            row.scores[nodes] = _levels(now - self._typical.useless(after, kinds))
            return
        # a share may be taken of any device that has enough; of those that have equally much, of the first
        rests = free.devices[nodes]
        places, devices = _first_of_equals(rests, milli)
        after = self._less(before.pick(places), row, rests[places, devices], 1)
        gains = np.full(rests.shape, -np.inf)
        gains[places, devices] = np.round(now[places] - self._typical.useless(after, kinds[places]), 6)
        row.devices[nodes] = best = gains.argmax(axis=1)
        row.scores[nodes] = _levels(gains[np.arange(len(nodes)), best])

    def _less(self, rooms: Rooms, row: Row, rests: NDArray[Any], devices: int) -> Rooms:
        """Rooms with one replica in each, on so many devices that have so much left."""
        enough, wastes, each = self._typical.has_enough, self._typical.wastes, row.machine.milli_of_each
        after = rests - each
        return Rooms(
            vcpus_milli=rooms.vcpus_milli - row.amounts[0],
            idle=rooms.idle - devices * each,
            enough=rooms.enough + devices * (enough[after] - enough[rests]),
            wasted=rooms.wasted + devices * (wastes[after] - wastes[rests]),
        )


def _first_of_equals(rests: NDArray[np.int32], milli: int) -> tuple[Indices, Indices]:
    """The places of devices that have enough left, where none before them on the node has exactly as much."""
    is_first = rests >= milli
    for device in range(1, rests.shape[1]):
        is_first[:, device] &= (rests[:, :device] != rests[:, device : device + 1]).all(axis=1)
    places, devices = is_first.nonzero()
    return places, devices


def _levels(gains: Numbers) -> Numbers:
    """Gains in thousandths of devices, as one of the levels."""
    with np.errstate(over="ignore"):
        found: Numbers = np.floor(LEVELS / (1.0 + np.exp(-np.round(gains, 6) / 1000.0)))
    return found
