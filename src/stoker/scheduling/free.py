"""What is free on every node, as arrays over the nodes: total less what live attempts hold. Changes are undone by rollback.

Amounts are whole numbers (thousandths of devices and vCPUs, MiB), so that taking and giving back in any order ends equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Attempt, Placement
from stoker.core.node import Node
from stoker.core.spec import ANY_ACCELERATOR, WHOLE_DEVICE_MILLI, JobSpec, Machine
from stoker.core.world import World

from .slots import UNLIMITED, Slots

Indices = NDArray[np.intp]

_NOWHERE: Indices = np.zeros(0, dtype=np.intp)


class Where(NamedTuple):
    """Where a gang may be as a whole."""

    engine: str  # empty: whatever the engine, for there is but one
    zone: str | None  # of its accelerators; None: it needs none

    def of(self, machine: Machine) -> Where:
        """Where one replica of it may be: what has no accelerators may be in any zone."""
        return self if machine.accelerator_milli else Where(self.engine, None)


ANYWHERE = Where("", None)


class Step(NamedTuple):
    """One change of what is free, to be undone."""

    sign: int  # -1: taken, 1: given back
    node: int
    devices: tuple[int, ...]
    milli: int  # of each device
    vcpus_milli: int
    memory_mib: int
    gang: str
    elsewhere: str = ""  # the engine of a node that is none of these (`node` is -1), and shares its machine with some


class Free:
    """What is free. Nodes stand in the order of their names: of two that are equally good, the first is taken."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: list[Node] = sorted(nodes, key=lambda node: node.name)
        self.index = {node.name: n for n, node in enumerate(self.nodes)}
        size, most = len(self.nodes), max((len(node.devices) for node in self.nodes), default=0)
        amounts = [(vcpus_milli(node.vcpus), memory_mib(node.memory_gb)) for node in self.nodes]
        self.amounts = np.array(amounts, dtype=np.int64).reshape(size, 2).T.copy()
        self.vcpus_milli, self.memory_mib = self.amounts  # its two rows, not copies of them
        self.devices = np.zeros((size, max(1, most)), dtype=np.int32)  # free milli of each device
        for n, node in enumerate(self.nodes):
            self.devices[n, : len(node.devices)] = WHOLE_DEVICE_MILLI
        self.whole = np.array([len(node.devices) for node in self.nodes], dtype=np.int32)  # devices that are all free
        self.largest = self.devices.max(axis=1) if size else np.zeros(0, dtype=np.int32)
        self.milli = self.devices.sum(axis=1) if size else np.zeros(0, dtype=np.int64)
        self.device_count = self.whole.copy()
        self.holders = np.zeros(size, dtype=np.int32)  # how many gangs hold something on each node
        self.closed = np.zeros(size, dtype=bool)  # nodes that nobody may take from, for now
        self.slots = Slots(self.nodes)
        self.version = np.zeros(size, dtype=np.int64)  # grows with every change of a node: placers keep notes by it
        self.notes: dict[str, Any] = {}  # of placers, about these nodes
        self._soft = np.array([node.soft for node in self.nodes], dtype=bool)
        self._has_soft = bool(self._soft.any())
        self._closed_any = False
        self._most: int | None = None  # whole devices that are free on one node, worked out when it is asked for
        self._device_index = [{name: d for d, name in enumerate(node.devices)} for node in self.nodes]
        self._on: dict[str, dict[int, int]] = {}  # gang → node → how many replicas
        self._log: list[Step] = []
        engines = sorted({node.engine for node in self.nodes})
        self._engines = engines if len(engines) > 1 else [""]
        self._candidates: dict[tuple[str, str, str, bool, Where], Indices] = {}
        self._wheres: dict[tuple[str, str, frozenset[str], bool], tuple[Where, ...]] = {}

    @classmethod
    def of(cls, world: World) -> Free:
        """What live attempts leave free. A node that takes no work gives nothing, but what it holds is held."""
        free = cls(node for node in world.nodes.values() if world.takes_work(node))
        for attempt in world.attempts.values():
            free.hold(world.jobs[attempt.job].spec, attempt)
        return free

    # What may hold a job

    def candidates(self, spec: JobSpec, machine: Machine, where: Where = ANYWHERE) -> Indices:
        """The nodes that may hold one replica at all: of the job's pool, region and accelerator. `where`: only there."""
        wants = machine.accelerator if machine.accelerator_milli else ""
        key = (spec.pool, spec.region, wants, spec.gives_way, where)
        found = self._candidates.get(key)
        if found is None:
            choices = machine.accelerator_choices
            fits = [
                n
                for n, node in enumerate(self.nodes)
                if node.pool == spec.pool
                and (not node.region or node.region == spec.region)
                and (not where.engine or node.engine == where.engine)
                and (where.zone is None or node.zone == where.zone)
                and (not node.spot or spec.gives_way)
                and (not wants or (node.devices and (wants == ANY_ACCELERATOR or node.accelerator in choices)))
            ]
            found = self._candidates[key] = np.array(fits, dtype=np.intp)
        return found

    def wheres(self, spec: JobSpec) -> tuple[Where, ...]:
        """Where the whole gang could be: on one engine, all its accelerators in one zone; by name."""
        key = (spec.pool, spec.region, spec.accelerator_types, spec.gives_way)
        found = self._wheres.get(key)
        if found is None:
            found = self._wheres[key] = tuple(
                Where(engine, zone) for engine in self._engines for zone in self._zones(spec, engine)
            )
        return found

    def _zones(self, spec: JobSpec, engine: str) -> list[str] | list[None]:
        """The zones in which the job could find accelerators on an engine, by name."""
        if not spec.accelerator_milli:
            return [None]
        per_group = [
            {self.nodes[n].zone for n in self.candidates(spec, group.machine, Where(engine, None))}
            for group in spec.groups
            if group.machine.accelerator_milli
        ]
        return sorted(set.intersection(*per_group))

    def with_more(self, nodes: Iterable[Node]) -> Free:
        """What is free, with these nodes besides, behind all that are there: their names begin with `~`."""
        more = Free([*self.nodes, *nodes])
        size, devices = len(self.nodes), self.devices.shape[1]
        more.amounts[:, :size] = self.amounts
        more.devices[:size, :devices] = self.devices
        for name in ("whole", "largest", "milli", "holders", "closed"):
            getattr(more, name)[:size] = getattr(self, name)
        more.slots.copy_from(self.slots)
        more._closed_any = self._closed_any
        more._on = {gang: dict(on) for gang, on in self._on.items()}
        return more

    def fitting(self, machine: Machine, gang: str, among: Indices) -> Indices:
        """Of these nodes, those on which one more replica fits now. On a soft node one gang alone may exceed vCPUs and memory."""
        # Devices first: of them there is the least, so little is left to be looked at.
        if machine.accelerator_milli >= WHOLE_DEVICE_MILLI:
            if machine.accelerators > self._most_whole():
                return _NOWHERE
            among = among[self.whole[among] >= machine.accelerators]
        elif machine.accelerator_milli:
            among = among[self.largest[among] >= machine.accelerator_milli]
        if self._closed_any and among.size:
            among = among[~self.closed[among]]
        if self.slots.is_limited and among.size:
            among = among[self.slots.any_on(among)]
        if not among.size:
            return among
        fits = (self.vcpus_milli[among] >= vcpus_milli(machine.vcpus)) & (
            self.memory_mib[among] >= memory_mib(machine.memory_gb)
        )
        if self._has_soft:
            mine = self._on.get(gang)
            others = self.holders[among]
            if mine:
                others = others - np.isin(among, list(mine))
            fits |= self._soft[among] & (others == 0)
        return among[fits]

    def most_of(self, spec: JobSpec, machine: Machine) -> int:
        """More replicas than this are not there room for, however they are placed."""
        among = self.candidates(spec, machine)
        most = np.full(among.size, UNLIMITED, dtype=np.int64)
        if machine.accelerator_milli >= WHOLE_DEVICE_MILLI:
            most = np.minimum(most, self.whole[among] // machine.accelerators)
        elif machine.accelerator_milli:
            most = np.minimum(most, (self.devices[among] // machine.accelerator_milli).sum(axis=1))
        for free, needs in (
            (self.vcpus_milli, vcpus_milli(machine.vcpus)),
            (self.memory_mib, memory_mib(machine.memory_gb)),
        ):
            if needs:
                most = np.where(self._soft[among], most, np.minimum(most, free[among] // needs))
        return min(int(most.sum()), self.slots.on_all(among)) if among.size else 0

    def _most_whole(self) -> int:
        """The most whole devices that are free on one node."""
        if self._most is None:
            self._most = int(self.whole.max(initial=0))
        return self._most

    def names_on(self, among: Iterable[int]) -> list[str]:
        """The gangs that hold something on these nodes, by name."""
        wanted = set(among)
        return sorted(gang for gang, nodes in self._on.items() if gang and not wanted.isdisjoint(nodes))

    def on(self, gang: str) -> dict[int, int]:
        """Where a gang holds something: node → how many replicas."""
        return self._on.get(gang, {})

    def by_node(self) -> dict[int, list[str]]:
        """Node → the gangs that hold something on it, by name."""
        found: dict[int, list[str]] = {}
        for gang in sorted(filter(None, self._on)):
            for node in self._on[gang]:
                found.setdefault(node, []).append(gang)
        return found

    # Taking and giving back

    def take(self, node: int, role: str, index: int, machine: Machine, gang: str) -> Placement:
        """Take room for one replica. The caller has asked `fitting`. A share goes where the least of a device is left over."""
        free = self.devices[node]
        if machine.accelerator_milli >= WHOLE_DEVICE_MILLI:
            devices = tuple(np.flatnonzero(free == WHOLE_DEVICE_MILLI)[: machine.accelerators].tolist())
        elif machine.accelerator_milli:
            enough = np.flatnonzero(free >= machine.accelerator_milli)
            devices = (int(enough[free[enough].argmin()]),)
        else:
            devices = ()
        return self.take_devices(node, devices, role, index, machine, gang)

    def take_devices(
        self, node: int, devices: tuple[int, ...], role: str, index: int, machine: Machine, gang: str
    ) -> Placement:
        """Take room for one replica on these devices of a node."""
        self._change(_of_machine(node, devices, machine, gang, -1))
        names = self.nodes[node].devices
        return Placement(role=role, index=index, node=self.nodes[node].name, devices=tuple(names[d] for d in devices))

    def take_again(self, place: Placement, machine: Machine, gang: str) -> None:
        """Take a place that was found where the same was free."""
        node = self.index[place.node]
        devices = tuple(self._device_index[node][name] for name in place.devices)
        self.take_devices(node, devices, place.role, place.index, machine, gang)

    def hold(self, spec: JobSpec, attempt: Attempt) -> None:
        """Take out what a live attempt holds."""
        self._move(spec, attempt, -1)

    def release(self, spec: JobSpec, attempt: Attempt) -> None:
        """Give back what an attempt held, for good or to see what would be."""
        self._move(spec, attempt, 1)

    def close(self, nodes: Iterable[str]) -> list[str]:
        """Let nobody take from these nodes until `reopen`. Returns those that were open."""
        found = [name for name in nodes if name in self.index and not self.closed[self.index[name]]]
        for name in found:
            self.closed[self.index[name]] = self._closed_any = True
        return found

    def close_of_pools(self, of_pools: bool, *, but: Iterable[str] = ()) -> None:
        """Let nobody take from machines of pools; or, if not of them, from all others. `but`: from these, as before."""
        if "free.of_pools" not in self.notes:
            self.notes["free.of_pools"] = np.array([bool(node.node_pool) for node in self.nodes], dtype=bool)
        kept = [(self.index[name], bool(self.closed[self.index[name]])) for name in but if name in self.index]
        self.closed |= self.notes["free.of_pools"] == of_pools
        self._closed_any = True
        for place, was_closed in kept:
            self.closed[place] = was_closed

    def note_closed(self) -> None:
        """What is closed was written from outside."""
        self._closed_any = True

    def reopen(self, nodes: Iterable[str] | None = None) -> None:
        """Close these nodes no more. None: no node."""
        if nodes is not None:
            for name in nodes:
                self.closed[self.index[name]] = False
        elif self._closed_any:
            self.closed[:] = False
            self._closed_any = False

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        while len(self._log) > mark:
            step = self._log.pop()
            self._apply(step, -step.sign)

    def since(self, mark: int) -> list[Step]:
        """What has been changed since the mark, to `redo` it later."""
        return self._log[mark:]

    def redo(self, steps: Iterable[Step]) -> None:
        """Change the same again, after a rollback to the same state."""
        for step in steps:
            self._change(step)

    def settle(self) -> None:
        """What was changed stays so: no mark from before can be rolled back to."""
        self._log.clear()

    def _move(self, spec: JobSpec, attempt: Attempt, sign: int) -> None:
        machines = {group.role: group.machine for group in spec.groups}
        for place in attempt.placements:
            node = self.index.get(place.node)
            if node is not None:
                names = self._device_index[node]
                devices = tuple(names[name] for name in place.devices if name in names)
                self._change(_of_machine(node, devices, machines[place.role], attempt.job, sign))
            elif self.slots.has(attempt.engine):
                self._change(Step(sign, -1, (), 0, 0, 0, attempt.job, attempt.engine))

    def _change(self, step: Step) -> None:
        self._log.append(step)
        self._apply(step, step.sign)

    def _apply(self, step: Step, sign: int) -> None:
        node, on = step.node, self._on.get(step.gang)
        self.slots.change(node, step.elsewhere, sign)
        if node < 0:
            return
        if on is None:
            on = self._on[step.gang] = {}
        self.vcpus_milli[node] += sign * step.vcpus_milli
        self.memory_mib[node] += sign * step.memory_mib
        self.version[node] += 1
        if step.devices:
            free, count = self.devices[node], len(step.devices)
            free[list(step.devices)] += sign * step.milli
            self.milli[node] += sign * step.milli * count
            self._most = None
            if step.milli == WHOLE_DEVICE_MILLI:
                self.whole[node] += sign * count
                self.largest[node] = WHOLE_DEVICE_MILLI if self.whole[node] else free.max()
            else:
                self.whole[node] = np.count_nonzero(free == WHOLE_DEVICE_MILLI)
                self.largest[node] = free.max()
        count = on.get(node, 0)
        on[node] = count - sign
        if count == 0 or count == sign:  # it comes to this node, or leaves it
            self.holders[node] -= sign
        if not on[node]:
            del on[node]
            if not on:
                del self._on[step.gang]


def vcpus_milli(vcpus: float) -> int:
    """vCPUs in thousandths."""
    return round(vcpus * 1000)


def memory_mib(memory_gb: float) -> int:
    """GB in MiB."""
    return round(memory_gb * 1024)


def _of_machine(node: int, devices: tuple[int, ...], machine: Machine, gang: str, sign: int) -> Step:
    milli, vcpus, memory = machine.milli_of_each, vcpus_milli(machine.vcpus), memory_mib(machine.memory_gb)
    return Step(sign, node, devices, milli, vcpus, memory, gang)
