"""What a job asks for, as far as placing it depends on it. Jobs of one shape are alike to the placer: they share one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.copies import replace
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec

from .usage import amounts_of, is_definite

_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One shape, with what follows from it. Equal shapes are the same object, so they are told apart by identity."""

    number: int  # in the order in which they were met
    pool: str
    types: frozenset[str]  # of accelerators that it asks for
    amounts: Mapping[str, int]  # what its gang holds, by resource
    is_definite: bool  # whether its resources are known before it is placed

    def competes(self, other: Shape) -> bool:
        """Whether they want one kind of machine of one pool. Who takes any accelerator competes with all who want one."""
        if self.pool != other.pool:
            return False
        mine, theirs = self.types, other.types
        if not mine or not theirs:
            return not mine and not theirs
        return bool(mine & theirs) or ANY_ACCELERATOR in mine or ANY_ACCELERATOR in theirs


@dataclass(slots=True)
class Shapes:
    """The shapes that were met."""

    _by_value: dict[object, Shape] = field(default_factory=dict)
    _by_groups: dict[tuple[int, str, str, bool, bool], tuple[tuple[Group, ...], Shape]] = field(default_factory=dict)

    def of(self, spec: JobSpec) -> Shape:
        """The shape of a job."""
        quick = (id(spec.groups), spec.pool, spec.region, spec.preemptible, spec.gives_way)
        known = self._by_groups.get(quick)
        if known is not None and known[0] is spec.groups:
            return known[1]
        value = (
            spec.pool,
            spec.region,
            spec.preemptible,
            spec.gives_way,
            tuple((g.count, g.machine) for g in spec.groups),
        )
        shape = self._by_value.get(value)
        if shape is None:
            definite = all(is_definite(group.machine.accelerator) for group in spec.groups)
            shape = Shape(len(self._by_value), spec.pool, spec.accelerator_types, amounts_of(spec), definite)
            self._by_value[value] = shape
        if len(self._by_groups) >= _MOST_KNOWN:
            self._by_groups.clear()
        self._by_groups[quick] = (spec.groups, shape)
        return shape


def of_type(spec: JobSpec, accelerator: str) -> JobSpec:
    """A job that takes one of several types, with this one. What it does not take, it does not take now either."""

    def narrowed(group: Group) -> Group:
        machine = group.machine
        takes = machine.accelerator == ANY_ACCELERATOR or accelerator in machine.accelerator_choices
        if not machine.accelerator_milli or is_definite(machine.accelerator) or not takes:
            return group
        return replace(group, machine=replace(machine, accelerator=accelerator))

    return replace(spec, groups=tuple(narrowed(group) for group in spec.groups))
