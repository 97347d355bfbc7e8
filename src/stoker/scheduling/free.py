"""What is free on every node: total less what live attempts hold. Taking is undone by rollback."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.core.job import Attempt, Job, Placement
from stoker.core.node import Node, NodeState
from stoker.core.spec import ANY_ACCELERATOR, JobSpec, Machine
from stoker.core.world import World


@dataclass(slots=True)
class Space:
    """What is left of one node."""

    node: Node
    devices: list[str]
    vcpus: float
    memory_gb: float
    holders: set[str] = field(default_factory=set)  # the gangs that hold something here

    def fits(self, machine: Machine, gang: str) -> bool:
        """Whether one more replica fits. Devices are strict; on a soft node one gang alone may exceed the rest."""
        node = self.node
        if machine.accelerator_milli:
            if len(self.devices) < machine.accelerators or not node.accelerator:
                return False
            if machine.accelerator not in (ANY_ACCELERATOR, node.accelerator):
                return False
        if node.soft and not self.holders - {gang}:
            return True
        return machine.vcpus <= self.vcpus and machine.memory_gb <= self.memory_gb


@dataclass(slots=True)
class Free:
    """What is free, node by node."""

    spaces: dict[str, Space]
    _taken: list[tuple[Space, tuple[str, ...], Machine, bool, str]] = field(default_factory=list)

    @classmethod
    def of(cls, world: World) -> Free:
        """What live attempts leave free. A node that is not UP gives nothing, but what it holds is held."""
        free = cls.empty(node for node in world.nodes.values() if node.state is NodeState.UP)
        for attempt in world.attempts.values():
            free.hold(world.jobs[attempt.job], attempt)
        return free

    @classmethod
    def empty(cls, nodes: Iterable[Node]) -> Free:
        """As if nobody held anything."""
        return cls({n.name: Space(n, list(n.devices), n.vcpus, n.memory_gb) for n in nodes})

    def hold(self, job: Job, attempt: Attempt) -> None:
        """Take out what a live attempt holds."""
        machines = {group.role: group.machine for group in job.spec.groups}
        for place in attempt.placements:
            space = self.spaces.get(place.node)
            if space is not None:
                space.devices = [d for d in space.devices if d not in place.devices]
                space.vcpus -= machines[place.role].vcpus
                space.memory_gb -= machines[place.role].memory_gb
                space.holders.add(job.id)

    def take(self, node: str, role: str, index: int, machine: Machine, gang: str) -> Placement:
        """Take room for one replica. The caller has asked `fits`."""
        space = self.spaces[node]
        devices = tuple(space.devices[: machine.accelerators])
        del space.devices[: machine.accelerators]
        space.vcpus -= machine.vcpus
        space.memory_gb -= machine.memory_gb
        self._taken.append((space, devices, machine, gang not in space.holders, gang))
        space.holders.add(gang)
        return Placement(role=role, index=index, node=node, devices=devices)

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self._taken)

    def rollback(self, mark: int) -> None:
        """Give back everything taken since the mark."""
        while len(self._taken) > mark:
            space, devices, machine, was_first, gang = self._taken.pop()
            space.devices[:0] = devices
            space.vcpus += machine.vcpus
            space.memory_gb += machine.memory_gb
            if was_first:
                space.holders.discard(gang)

    def candidates(self, spec: JobSpec) -> list[Space]:
        """The nodes that may hold this job at all: of its pool, and of its region where the node has one."""
        return [
            space
            for space in self.spaces.values()
            if space.node.pool == spec.pool and (not space.node.region or space.node.region == spec.region)
        ]
