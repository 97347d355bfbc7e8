"""What live attempts hold, node by node, in whole numbers: what a node would have if one of them were gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stoker.core.job import Attempt
from stoker.core.spec import WHOLE_DEVICE_MILLI, JobSpec, Machine

from .free import Free, memory_mib, vcpus_milli


class Room(NamedTuple):
    """Devices (thousandths), vCPUs (thousandths), memory (MiB), and how many replicas."""

    device_milli: int
    vcpus_milli: int
    memory_mib: int
    replicas: int

    def plus(self, other: Room) -> Room:
        """Both together."""
        return Room(
            self.device_milli + other.device_milli,
            self.vcpus_milli + other.vcpus_milli,
            self.memory_mib + other.memory_mib,
            self.replicas + other.replicas,
        )

    def less(self, other: Room) -> Room:
        """This without the other."""
        return Room(
            self.device_milli - other.device_milli,
            self.vcpus_milli - other.vcpus_milli,
            self.memory_mib - other.memory_mib,
            self.replicas - other.replicas,
        )

    def holds(self, need: Room) -> bool:
        """Whether so much is there."""
        return (
            self.device_milli >= need.device_milli
            and self.vcpus_milli >= need.vcpus_milli
            and self.memory_mib >= need.memory_mib
            and self.replicas >= need.replicas
        )


NOTHING = Room(0, 0, 0, 0)


class Footprints:
    """Who is on which node, with what."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Room]] = {}  # attempt → node → what it holds there
        self._on: dict[str, dict[str, None]] = {}  # node → the attempts on it
        self._sharing: dict[str, set[str]] = {}  # node → attempts on it that hold shares of devices

    def add(self, spec: JobSpec, attempt: Attempt) -> None:
        """An attempt holds its places."""
        machines = {group.role: group.machine for group in spec.groups}
        found: dict[str, Room] = {}
        for place in attempt.placements:
            machine = machines[place.role]
            found[place.node] = found.get(place.node, NOTHING).plus(room_of(machine))
            self._on.setdefault(place.node, {})[attempt.id] = None
            if 0 < machine.accelerator_milli < WHOLE_DEVICE_MILLI:
                self._sharing.setdefault(place.node, set()).add(attempt.id)
        self._of[attempt.id] = found

    def discard(self, attempt: str) -> None:
        """It holds nothing any more."""
        for node in self._of.pop(attempt, {}):
            del self._on[node][attempt]
            self._sharing.get(node, set()).discard(attempt)

    def nodes(self, attempt: str) -> Iterable[str]:
        """Where it holds something."""
        return self._of[attempt]

    def there(self, attempt: str, node: str) -> Room:
        """What it holds on a node."""
        return self._of[attempt].get(node, NOTHING)

    def on(self, node: str) -> Iterable[str]:
        """Who holds something on a node."""
        return self._on.get(node, ())

    def is_shared(self, node: str) -> bool:
        """Whether devices of a node are held in shares: then what is free of them all together says little."""
        return bool(self._sharing.get(node))


def room_of(machine: Machine) -> Room:
    """What one replica takes."""
    return Room(machine.accelerator_milli, vcpus_milli(machine.vcpus), memory_mib(machine.memory_gb), 1)


def free_room(free: Free, node: int) -> Room:
    """What is free on a node: of its devices, only those that are wholly free."""
    whole = int(free.whole[node]) * WHOLE_DEVICE_MILLI
    return Room(whole, int(free.vcpus_milli[node]), int(free.memory_mib[node]), free.slots.on(node))
