"""Fragmentation: idle GPUs that the jobs of a trace cannot use, as FGD (ATC'23) counts them.

A typical job stands for all that ask for the same; the most frequent that cover 95 % of the jobs count, by how many there
are. Of a gang, its largest replica counts, for that has to find one node. What one such replica cannot use of a node is

- all that is idle there, if it does not fit on it at all;
- otherwise what is idle on those devices that have less than it asks of each.

FGD counts jobs that want no GPU as well, to which every idle one is useless. Here they are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.core.job import Attempt, Placement
from stoker.core.node import Node, NodeState
from stoker.core.spec import ANY_ACCELERATOR, JobSpec, Machine

COVERED_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Typical:
    """What some jobs ask for, and which share of the typical jobs they are."""

    machine: Machine
    share: float


def typical_of(specs: Iterable[JobSpec]) -> tuple[Typical, ...]:
    """The most frequent machines of these jobs."""
    counts: Counter[Machine] = Counter()
    for spec in specs:
        largest = max((group.machine for group in spec.groups), key=lambda machine: machine.accelerator_milli)
        if largest.accelerator_milli:
            counts[largest] += 1
    kept: list[tuple[Machine, int]] = []
    covered, enough = 0, COVERED_SHARE * counts.total()
    for machine, count in counts.most_common():
        if covered >= enough:
            break
        kept.append((machine, count))
        covered += count
    return tuple(Typical(machine, count / covered) for machine, count in kept)


class Fragments:
    """What is idle on every node that is up, and how much of it is of no use, kept up to date."""

    def __init__(self, typical: tuple[Typical, ...]) -> None:
        self._typical = typical
        self._known: dict[tuple[object, ...], float] = {}
        self._nodes: dict[str, _Room] = {}

    def see(self, node: Node) -> tuple[float, float]:
        """A node is there, or is there in another state. Returns by how much idle and unusable GPUs have changed."""
        room = self._nodes.get(node.name)
        if room is None:
            room = self._nodes[node.name] = _Room(node)
        before = self._figures(room)
        room.is_up = node.state is NodeState.UP
        return _less(self._figures(room), before)

    def move(self, attempt: Attempt, machines: Mapping[str, Machine], sign: int) -> tuple[float, float]:
        """An attempt takes its places (-1) or gives them back (1). Returns the changes of idle and unusable GPUs."""
        idle = unusable = 0.0
        for place in attempt.placements:
            room = self._nodes[place.node]
            before = self._figures(room)
            room.move(place, machines[place.role], sign)
            change = _less(self._figures(room), before)
            idle += change[0]
            unusable += change[1]
        return idle, unusable

    def _figures(self, room: _Room) -> tuple[float, float]:
        if not room.is_up:
            return 0.0, 0.0
        key = (room.accelerator, tuple(room.milli), round(room.vcpus, 3), round(room.memory_gb, 3))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = sum(t.share * room.useless_milli(t.machine) for t in self._typical) / 1000
        return sum(room.milli) / 1000, found


class _Room:
    """What is free on one node."""

    def __init__(self, node: Node) -> None:
        self.accelerator = node.accelerator
        self.vcpus = node.vcpus
        self.memory_gb = node.memory_gb
        self.milli = [1000] * len(node.devices)
        self.is_up = False
        self._place = {name: n for n, name in enumerate(node.devices)}

    def move(self, place: Placement, machine: Machine, sign: int) -> None:
        for device in place.devices:
            self.milli[self._place[device]] += sign * machine.milli_of_each
        self.vcpus += sign * machine.vcpus
        self.memory_gb += sign * machine.memory_gb

    def useless_milli(self, machine: Machine) -> int:
        idle = sum(self.milli)
        enough = [free for free in self.milli if free >= machine.milli_of_each]
        fits = (
            len(enough) >= machine.accelerators
            and (machine.accelerator == ANY_ACCELERATOR or self.accelerator in machine.accelerator_choices)
            and self.vcpus >= machine.vcpus - 1e-6
            and self.memory_gb >= machine.memory_gb - 1e-6
        )
        return idle - sum(enough) if fits else idle


def _less(after: tuple[float, float], before: tuple[float, float]) -> tuple[float, float]:
    return after[0] - before[0], after[1] - before[1]
