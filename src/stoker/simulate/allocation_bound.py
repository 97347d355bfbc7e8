"""How much of a cluster's GPUs some pods can hold at once, whoever places them.

Two limits, of which the smaller counts; both are linear programs that cut pods in pieces, so no placement is above them.

1. **By resources**: each kind of node has so many CPUs, GB of memory and GPUs in all, and takes only pods that fit on one of
   its nodes and accept its model. Pods without a GPU are left out: they can only take room.
2. **By sizes**: every share of a GPU lies on one device, so a device is cut by one of the patterns that fit it. Patterns are
   found as they pay (Gilmore and Gomory's column generation).

There is no solver among the dependencies; a dense simplex of a page does, as nothing is ever below zero at the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from stoker.simulate.trace import TraceJob, TraceNode

Numbers = NDArray[np.float64]

DEVICE_MILLI = 1000
CLOSE = 1e-9
PAYS_MILLI = 1e-6  # a pattern that gains less on a device ends the search
STALLED = 200  # pivots without gain after which the choice is by place, which cannot go in circles


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationBound:
    """Limits of the milli-GPU that can be allocated at once."""

    capacity_milli: int
    by_resources_milli: float
    by_sizes_milli: float

    @property
    def share(self) -> float:
        """Of all GPUs, the part that can be allocated."""
        return min(self.by_resources_milli, self.by_sizes_milli) / self.capacity_milli


def allocation_bound(pods: Sequence[TraceJob], nodes: Sequence[TraceNode], *, copies: float = 1.0) -> AllocationBound:
    """The limits for pods that each lie on one node. `copies`: so many of each, for the mix of a longer list."""
    kinds: Counter[_Kind] = Counter()
    for node in nodes:
        if node.gpus:
            kinds[_Kind(node.accelerator, (node.gpus * DEVICE_MILLI, node.vcpus, node.memory_gb))] += node.count
    specs = Counter(
        _Spec(pod.accelerators, (pod.gpus_milli, pod.vcpus, pod.memory_gb)) for pod in pods if pod.gpus_milli
    )
    sizes: Counter[int] = Counter()
    for spec, count in specs.items():
        whole, share = divmod(int(spec.need[0]), DEVICE_MILLI)
        sizes[DEVICE_MILLI] += whole * count
        sizes[share] += count if share else 0
    capacity_milli = sum(int(kind.room[0]) * count for kind, count in kinds.items())
    cut = {size: copies * count for size, count in sizes.items() if count}
    return AllocationBound(
        capacity_milli=capacity_milli,
        by_resources_milli=_by_resources(kinds, {spec: copies * count for spec, count in specs.items()}),
        by_sizes_milli=_by_sizes(capacity_milli // DEVICE_MILLI, cut),
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes that are alike: what each has in milli-GPU, CPUs and GB."""

    model: str
    room: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class _Spec:
    """Pods that are alike: what each needs in milli-GPU, CPUs and GB."""

    models: tuple[str, ...]
    need: tuple[float, float, float]

    def fits(self, kind: _Kind) -> bool:
        """Whether one of them fits on one such node."""
        return (not self.models or kind.model in self.models) and all(
            need <= room for need, room in zip(self.need, kind.room, strict=True)
        )


def _by_resources(kinds: Mapping[_Kind, int], specs: Mapping[_Spec, float]) -> float:
    """A variable says how many pods of a spec lie on nodes of a kind; a row, how much of something there is."""
    columns, gains = [], []
    for place, spec in enumerate(specs):
        for at, kind in enumerate(kinds):
            if spec.fits(kind):
                column = np.zeros(3 * len(kinds) + len(specs))
                column[3 * at : 3 * at + 3] = spec.need
                column[3 * len(kinds) + place] = 1
                columns.append(column)
                gains.append(spec.need[0])
    room = [count * amount for kind, count in kinds.items() for amount in kind.room]
    return _most(np.array(gains), np.array(columns).T, np.array([*room, *specs.values()]))[0] if columns else 0.0


def _by_sizes(devices: int, cut: Mapping[int, float]) -> float:
    """A variable says how many devices are cut by a pattern; rows, how many devices and pieces of each size there are."""
    if not cut:
        return 0.0
    sizes = np.array(sorted(cut))
    limits = np.array([devices, *(cut[size] for size in sizes.tolist())], dtype=np.float64)
    patterns = [np.where(sizes == size, DEVICE_MILLI // size, 0) for size in sizes]
    while True:
        gains = np.array([pattern @ sizes for pattern in patterns], dtype=np.float64)
        matrix = np.vstack([np.ones(len(patterns)), np.array(patterns).T])
        value, prices = _most(gains, matrix, limits)
        pattern = _best_pattern(sizes, sizes - prices[1:])
        if pattern @ (sizes - prices[1:]) - prices[0] < PAYS_MILLI:
            return value
        patterns.append(pattern)


def _best_pattern(sizes: NDArray[np.int64], worth: Numbers) -> NDArray[np.int64]:
    """How often to cut each size out of one device for the most worth: a knapsack, filled from small to large."""
    unit = gcd(DEVICE_MILLI, *sizes.tolist())
    steps = sizes // unit
    best = np.zeros(DEVICE_MILLI // unit + 1)
    last = np.full(best.size, -1)
    for room in range(1, best.size):
        found = np.where(steps <= room, worth + best[np.maximum(room - steps, 0)], -1.0)
        choice = int(found.argmax())
        best[room] = max(best[room - 1], found[choice])
        last[room] = choice if found[choice] > best[room - 1] else -1
    pattern, room = np.zeros(sizes.size, dtype=np.int64), best.size - 1
    while room > 0:
        if last[room] >= 0:
            pattern[last[room]] += 1
        room -= int(steps[last[room]]) if last[room] >= 0 else 1
    return pattern


def _most(gains: Numbers, matrix: Numbers, limits: Numbers) -> tuple[float, Numbers]:
    """The most that `gains @ x` can be where `matrix @ x <= limits` and x >= 0, and the price of each row. Limits are >= 0.

    The tableau of the simplex method: rows, then the gains; columns of x, then of what each row leaves over, then limits.
    """
    rows, columns = matrix.shape
    scale = np.maximum(np.abs(matrix).max(axis=1), CLOSE)
    tableau = np.zeros((rows + 1, columns + rows + 1))
    tableau[:rows, :columns] = matrix / scale[:, None]
    tableau[:rows, columns:-1] = np.eye(rows)
    tableau[:rows, -1] = limits / scale
    tableau[rows, :columns] = -gains
    stalled = 0
    while True:
        costs = tableau[rows, :-1]
        paying = np.flatnonzero(costs < -CLOSE * max(1.0, float(np.abs(gains).max())))
        if not paying.size:
            return float(tableau[rows, -1]), tableau[rows, columns:-1] / scale
        enter = int(paying[0] if stalled > STALLED else costs.argmin())
        column = tableau[:rows, enter]
        positive = np.flatnonzero(column > CLOSE)
        leave = int(positive[np.argmin(tableau[positive, -1] / column[positive])])
        before = tableau[rows, -1]
        tableau[leave] /= tableau[leave, enter]
        factors = tableau[:, enter].copy()
        factors[leave] = 0.0
        touched = np.flatnonzero(factors)
        tableau[touched] -= factors[touched, None] * tableau[leave]
        stalled = stalled + 1 if tableau[rows, -1] <= before + CLOSE else 0
