"""Shadow price: every node is worth something for the work still to come; a replica goes where that worth falls least.

The name is the economists' word for what one more of something scarce would be worth. Four things have a price here:

1. **The rest of a device.** From the sizes of shares that were asked for follows how devices are best cut, and so what any
   rest is worth. 460 and 540 find each other; a rest that nobody asks for is worth nothing.
2. **Stranded devices.** Devices that will stay idle because the vCPUs or the memory beside them run out first.
3. **Whole devices.** Devices on a node that has too few whole ones left for replicas which want several.
4. **Scarce nodes.** A kind of node that some can use and nothing else has a toll, by how much of it those will want. Who can
   go elsewhere goes elsewhere, as long as there is room.

What is asked for is learnt from the jobs that come (`learns`). Nothing that fits is ever refused for the sake of later jobs.
Of nodes that cost the same to a step, one that holds replicas of the gang is taken, then the first by name; for replicas
without accelerators a node that has none, then the one that is left with the least vCPUs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Placement
from stoker.core.spec import WHOLE_DEVICE_MILLI, JobSpec, Machine
from stoker.scheduling.base import Choice
from stoker.scheduling.free import Free, Indices
from stoker.scheduling.gang import place_gang
from stoker.scheduling.pricing.demand import Demand, Learner
from stoker.scheduling.pricing.fleet import Fleet, fleet_of
from stoker.scheduling.pricing.prices import Prices, prices_of
from stoker.scheduling.pricing.scores import Row, Rows

Numbers = NDArray[np.float64]

STEP_MILLI = 5.0
"""Costs are rounded to it, so that what differs by less is equal."""

TIGHT = 0.9
"""For replicas without accelerators: by how much of a step vCPUs that are left over count."""

_NOTE = "shadow-price"
_MOST_PRICES = 8


class ShadowPrice:
    """The node whose worth for the jobs still to come falls least. What those ask for is learnt from the jobs that came."""

    def __init__(self) -> None:
        self._learner = Learner()
        self._prices: dict[tuple[Demand, Fleet], Prices] = {}

    def learns(self, spec: JobSpec) -> None:
        """Count what the job asks for. To be told once of each job; `place` teaches nothing."""
        self._learner.add(spec)

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, or None."""
        demand = self._learner.demand
        worth: _Worth | None = free.notes.get(_NOTE)
        if worth is None or worth.demand is not demand:
            worth = free.notes[_NOTE] = _Worth(free, demand, self._prices_of(demand, fleet_of(free)[0]))
        return place_gang(gang, spec, free, worth.choose)

    def _prices_of(self, demand: Demand, fleet: Fleet) -> Prices:
        found = self._prices.get((demand, fleet))
        if found is None:
            if len(self._prices) >= _MOST_PRICES:
                self._prices = {}
            found = self._prices[demand, fleet] = prices_of(demand, fleet)
        return found


class _Worth:
    """What the nodes of one `Free` are worth by one set of prices."""

    def __init__(self, free: Free, demand: Demand, prices: Prices) -> None:
        kind_of_node = fleet_of(free)[1]
        self.demand = demand
        self._prices = prices
        self._needs, self._toll = prices.needs[:, :, kind_of_node], prices.toll[kind_of_node]
        self._now = Row(Machine(vcpus=0, memory_gb=0), len(free.nodes))  # what each node is worth as it is, negated
        self._rows = Rows(len(free.nodes))

    def choose(self, machine: Machine, gang: str, fitting: Indices, free: Free) -> Choice:
        """The node, and of which device a share is taken."""
        row = self._rows.of(machine)
        stale = row.stale(free)
        if stale.size:
            self._score(row, stale, free)
        scores = row.scores[fitting]
        on = free.on(gang)
        if on:
            scores[np.isin(fitting, list(on))] -= 0.5
        node = int(fitting[scores.argmin()])
        if 0 < machine.accelerator_milli < WHOLE_DEVICE_MILLI:
            return node, (int(row.devices[node]),)
        return node

    def _score(self, row: Row, nodes: Indices, free: Free) -> None:
        """What these nodes lose of their worth by one such replica, in steps. Whether it fits is somebody else's question."""
        machine = row.machine
        milli, whole = machine.accelerator_milli, free.whole[nodes]
        costs: Numbers | float = 0.0
        if 0 < milli < WHOLE_DEVICE_MILLI:
            rests = free.devices[nodes]
            after = rests - milli
            each = np.where(after >= 0, self._prices.device[after] - self._prices.device[rests], np.inf)
            devices = each.argmin(axis=1)
            places = np.arange(len(nodes))
            costs = each[places, devices]
            whole = whole - (rests[places, devices] == WHOLE_DEVICE_MILLI)
            row.devices[nodes] = devices
        elif milli:
            whole = whole - machine.accelerators
            milli = machine.accelerators * WHOLE_DEVICE_MILLI
        left = free.amounts[:, nodes] - row.amounts
        costs = costs + self._loss(left, free.milli[nodes] - milli, whole, nodes) - self._losses_now(nodes, free)
        scores = np.rint((costs + self._toll[nodes] * milli) / STEP_MILLI)
        if not milli:
            scores -= free.device_count[nodes] == 0
            scores += left[0] * (TIGHT / self._prices.most_vcpus_milli)
        row.scores[nodes] = scores

    def _losses_now(self, nodes: Indices, free: Free) -> Numbers:
        """What the nodes have lost of their worth already."""
        stale = self._now.stale(free)
        if stale.size:
            amounts, idle, whole = free.amounts[:, stale], free.milli[stale], free.whole[stale]
            self._now.scores[stale] = self._loss(amounts, idle, whole, stale)
        found: Numbers = self._now.scores[nodes]
        return found

    def _loss(
        self, amounts: NDArray[np.int64], idle: NDArray[np.int64], whole: NDArray[np.int32], nodes: Indices
    ) -> Numbers:
        """Idle thousandths of devices that will be of no use: for lack of whole devices, of vCPUs, of memory."""
        idle = np.maximum(idle, 0)
        each, variance, weight = self._needs[:, :, nodes]
        short = each * idle - amounts
        stranded = weight * (short + np.sqrt(short * short + variance * idle))
        found: Numbers = self._prices.lack[np.maximum(whole, 0)] * idle + stranded[0] + stranded[1]
        return found
