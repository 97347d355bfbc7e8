"""What room is worth on nodes of each kind, from what is asked for: the tables by which the placer `shadow-price` goes.

All in thousandths of a device. They follow from the demand and the fleet alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.core.spec import WHOLE_DEVICE_MILLI

from .cutting import cutting_values
from .demand import Ask, Demand
from .fleet import Fleet
from .tolls import even_loads

Numbers = NDArray[np.float64]

TAIL = 0.05
"""Weight of what is left over by one share more, beside the value of cutting: it tells apart what is worth the same."""

WHOLE = 0.15
"""Weight of devices on a node that has too few whole ones for who wants several."""

SHORTAGE = 0.7
"""Weight of devices that stay idle because vCPUs or memory run out first. 1.2 fills a cluster that nobody leaves by some
0.05 points more; 0.7 turns fewer away where jobs come and go."""

SPREAD = 0.4
"""How far the needs of those on one node differ from the mean: this part of the deviation that chance alone would give."""

TOLL = 1.5
"""Price of a device on a kind of node that is asked for just all it has by those that can go nowhere else."""

WIDE = 0.7
"""Who may use so much of all devices of its region and pool can go elsewhere."""

GUESS_REPLICAS = 8.0
"""The first guess counts like so many replicas."""

MOST_SIZES = 32
"""Of more sizes of shares only the most frequent are cut."""

_HALF_NORMAL = 2.0 / np.pi  # makes the smooth loss below as great at its middle as that of a normal distribution
_GUESSED = ((1000, 0.5), (500, 0.25), (250, 0.25))  # milli of a device, share of replicas


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """The tables."""

    device: Numbers  # by what is left of a device, 0 to 1000: its worth, negated
    lack: Numbers  # by how many devices of a node are whole: worth that each idle milli on it loses
    needs: Numbers  # a milli, its variance, the weight; each of vCPUs and of memory; each by kind
    toll: Numbers  # by kind, for each milli that is taken
    most_vcpus_milli: float


def prices_of(demand: Demand, fleet: Fleet) -> Prices:
    """The prices that this demand makes on this fleet."""
    mix = _Mix.of(demand, fleet)
    return Prices(
        device=_device(mix),
        lack=_lack(mix, fleet),
        needs=_needs(mix),
        toll=_toll(mix, fleet.capacity_milli()),
        most_vcpus_milli=float(max((kind.vcpus_milli for kind in fleet.kinds), default=0) or 1),
    )


@dataclass(frozen=True, slots=True)
class _Mix:
    """What is asked for with accelerators, as one array for each field."""

    weight: Numbers
    vcpus: Numbers
    memory: Numbers
    each_milli: NDArray[np.int64]
    devices: NDArray[np.int64]
    fits: NDArray[np.bool_]  # which kinds (columns) an ask (row) could ever go to
    near: NDArray[np.bool_]  # which kinds are of its pool and region

    @property
    def milli(self) -> Numbers:
        found: Numbers = (self.each_milli * self.devices).astype(float)
        return found

    @classmethod
    def of(cls, demand: Demand, fleet: Fleet) -> _Mix:
        asked = {ask: weight for ask, weight in demand.weights.items() if ask.devices}
        guess, counts = _guess(fleet), demand.guess if asked else 1.0
        asks = [*asked, *(ask for ask, _ in guess)]
        weights = [*asked.values(), *(counts * weight for _, weight in guess)]
        vcpus = np.array([ask.vcpus_milli for ask in asks], dtype=float)
        memory = np.array([ask.memory_mib for ask in asks], dtype=float)
        devices = np.array([ask.devices for ask in asks], dtype=np.int64)
        sizes = np.array([kind[1:4] for kind in fleet.kinds], dtype=float).reshape(len(fleet.kinds), 3)
        fits = (
            (sizes[:, 0] >= devices[:, None])
            & (sizes[:, 1] >= vcpus[:, None])
            & (sizes[:, 2] >= memory[:, None])
            & fleet.accepts(asks)
        )
        near = fleet.is_near(asks)
        fits[len(asked) :] = near[len(asked) :] = sizes[:, 0] > 0  # who is only guessed may go anywhere
        each = np.array([ask.each_milli for ask in asks], dtype=np.int64)
        return cls(np.array(weights), vcpus, memory, each, devices, fits, near)


def _guess(fleet: Fleet) -> list[tuple[Ask, float]]:
    """What may be asked for, before anybody has: shares and whole devices, with half or all of the vCPUs and memory for each."""
    pairs = [(kind, count) for kind, count in zip(fleet.kinds, fleet.counts, strict=True) if kind.devices]
    milli = max(1, sum(kind.devices * count * WHOLE_DEVICE_MILLI for kind, count in pairs))
    vcpus = sum(kind.vcpus_milli * count for kind, count in pairs) / milli
    memory = sum(kind.memory_mib * count for kind, count in pairs) / milli
    return [
        (Ask(round(part * vcpus * size), round(part * memory * size), 1, size, (), "", ""), GUESS_REPLICAS * share / 2)
        for size, share in _GUESSED
        for part in (0.5, 1.0)
    ]


def _device(mix: _Mix) -> Numbers:
    """The worth of what is left of a device, negated, and a little of what the next share would leave of it."""
    sizes = np.bincount(mix.each_milli, weights=mix.weight * mix.devices, minlength=WHOLE_DEVICE_MILLI + 1)
    cut = np.flatnonzero(sizes > 0)
    if len(cut) > MOST_SIZES:
        cut = np.sort(cut[np.argsort(-sizes[cut], kind="stable")[:MOST_SIZES]])
    single = np.bincount(mix.each_milli, weights=mix.weight * (mix.devices == 1), minlength=WHOLE_DEVICE_MILLI + 1)
    waste = np.arange(WHOLE_DEVICE_MILLI + 1) * (1.0 - np.cumsum(single) / mix.weight.sum())
    found: Numbers = TAIL * waste - cutting_values(cut.astype(np.int64), sizes[cut].astype(float))
    return found


def _lack(mix: _Mix, fleet: Fleet) -> Numbers:
    """By how many devices are whole: the share of devices asked for by replicas that want more than these on one node."""
    most = max((kind.devices for kind in fleet.kinds), default=0)
    asked = mix.weight * mix.milli
    several = np.bincount(mix.devices, weights=asked * (mix.devices > 1), minlength=most + 2)
    found: Numbers = WHOLE / asked.sum() * (several.sum() - np.cumsum(several))[: most + 1]
    return found


def _needs(mix: _Mix) -> Numbers:
    """By kind of node: vCPUs and memory for each milli of a device, among those that may go there, and how they vary."""
    weight = np.where(mix.fits, mix.weight[:, None], 0.0)
    nobody = weight.sum(axis=0) <= 0
    weight[:, nobody] = mix.weight[:, None]
    milli = mix.milli @ weight
    rows: list[tuple[Numbers, Numbers, Numbers]] = []
    for amounts in (mix.vcpus, mix.memory):
        each = (amounts @ weight) / milli
        variance = (weight * (amounts[:, None] - each * mix.milli[:, None]) ** 2).sum(axis=0) / milli
        factor = np.where(each > 1e-9, 0.5 * SHORTAGE / np.maximum(each, 1e-9), 0.0)
        rows.append((each, _HALF_NORMAL * SPREAD**2 * variance, factor))
    return np.array(rows).swapaxes(0, 1)


def _toll(mix: _Mix, capacity: Numbers) -> Numbers:
    """By kind of node: the load of those that can go to few others, as a price."""
    share = (mix.fits @ capacity) / np.maximum(mix.near @ capacity, 1e-9)
    narrow = (share < WIDE) & (share > 0)
    if not narrow.any():
        return np.zeros(len(capacity))
    asked = mix.weight * mix.milli
    groups, group = np.unique(mix.fits[narrow], axis=0, return_inverse=True)
    by_group = np.bincount(group.reshape(-1), weights=asked[narrow]) * (capacity.sum() / asked.sum())
    return TOLL * even_loads(by_group, groups, capacity)
