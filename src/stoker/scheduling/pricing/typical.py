"""Fragmentation as FGD counts it: devices that are idle but of no use to the typical replica.

Typical are the most frequent kinds of replicas that make up 95 % of all; those without accelerators count among them, and
every idle device is useless to them. Source: "Beware of Fragmentation", USENIX ATC 2023.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.core.spec import WHOLE_DEVICE_MILLI
from stoker.scheduling.free import Free, Indices

from .demand import Ask, Demand
from .fleet import Fleet, fleet_of

Numbers = NDArray[np.float64]

COVERED_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Rooms:
    """What some nodes have free, as the typical kinds of replicas (columns) see it."""

    vcpus_milli: NDArray[np.int64]
    idle: NDArray[np.int64]
    enough: NDArray[np.int64]  # devices that have enough for one
    wasted: NDArray[np.int64]  # thousandths on devices that have not

    def pick(self, rows: Indices) -> Rooms:
        """The rooms of some of the nodes, each as often as it is named."""
        return Rooms(self.vcpus_milli[rows], self.idle[rows], self.enough[rows], self.wasted[rows])


class Typical:
    """The typical kinds of replicas of a demand, for the nodes of a fleet."""

    def __init__(self, demand: Demand, fleet: Fleet) -> None:
        asks, weights = _most_frequent(demand)
        self._share = weights / weights.sum() if asks else weights
        self._vcpus = np.array([ask.vcpus_milli for ask in asks], dtype=np.int64)
        self._devices = np.array([ask.devices for ask in asks], dtype=np.int64)
        self._accepts = (fleet.accepts(asks) & (self._devices > 0)[:, None]).T.copy()
        each = np.array([ask.each_milli for ask in asks], dtype=np.int64)
        rest = np.arange(WHOLE_DEVICE_MILLI + 1)[:, None]
        self.has_enough = ((rest >= each) & (rest > 0)).astype(np.int64)  # by what is left of a device
        self.wastes = rest * (rest < each)

    def rooms(self, free: Free, nodes: Indices) -> Rooms:
        """What these nodes have free."""
        rests = free.devices[nodes]
        return Rooms(
            vcpus_milli=free.vcpus_milli[nodes],
            idle=free.milli[nodes],
            enough=self.has_enough[rests].sum(axis=1),
            wasted=self.wastes[rests].sum(axis=1),
        )

    def useless(self, rooms: Rooms, kinds: Indices) -> Numbers:
        """Thousandths of devices on each of these nodes that the mean typical replica cannot use."""
        fits = (rooms.vcpus_milli[:, None] >= self._vcpus) & (rooms.enough >= self._devices) & self._accepts[kinds]
        found: Numbers = (np.where(fits, rooms.wasted, rooms.idle[:, None]) * self._share).sum(axis=1)
        return found


def useless_milli(demand: Demand, free: Free) -> float:
    """Thousandths of devices, all nodes together, that the mean typical replica cannot use."""
    fleet, kinds = fleet_of(free)
    typical = Typical(demand, fleet)
    return float(typical.useless(typical.rooms(free, np.arange(len(free.nodes))), kinds).sum())


def _most_frequent(demand: Demand) -> tuple[list[Ask], Numbers]:
    counts: Counter[Ask] = Counter()
    for ask, weight in demand.weights.items():
        counts[ask._replace(memory_mib=0)] += weight  # type: ignore[assignment]  # memory plays no part
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    weights = np.array([weight for _, weight in ranked], dtype=float)
    covered = np.cumsum(weights)
    kept = int(np.searchsorted(covered, COVERED_SHARE * covered[-1])) + 1 if ranked else 0
    return [ask for ask, _ in ranked[:kept]], weights[:kept]
