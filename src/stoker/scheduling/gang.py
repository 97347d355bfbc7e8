"""How a gang is walked through: every placer says where one replica goes, this says the rest."""

from __future__ import annotations

from stoker.core.job import Placement
from stoker.core.spec import WHOLE_DEVICE_MILLI, Group, JobSpec

from .base import Chooser
from .free import Free, Where


def place_gang(gang: str, spec: JobSpec, free: Free, choose: Chooser) -> tuple[Placement, ...] | None:
    """Places for the whole gang, taken out of `free`; or None, with `free` as it was.

    The hungriest replicas first, all of them on one engine and all accelerators of the job in one zone. Zones are tried by name.
    """
    for where in free.wheres(spec):
        mark = free.checkpoint()
        places = _place_in(where, gang, spec, free, choose)
        if places is not None:
            return places
        free.rollback(mark)
    return None


def _place_in(where: Where, gang: str, spec: JobSpec, free: Free, choose: Chooser) -> tuple[Placement, ...] | None:
    places: list[Placement] = []
    groups = spec.groups if len(spec.groups) == 1 else sorted(spec.groups, key=hunger, reverse=True)
    for group in groups:
        machine = group.machine
        candidates = free.candidates(spec, machine, where.of(machine))
        is_share = 0 < machine.accelerator_milli < WHOLE_DEVICE_MILLI
        for index in range(group.count):
            fitting = free.fitting(machine, gang, candidates)
            if not fitting.size:
                return None
            choice = choose(machine, gang, fitting, free) if fitting.size > 1 or is_share else int(fitting[0])
            if isinstance(choice, tuple):
                places.append(free.take_devices(*choice, group.role, index, machine, gang))
            else:
                places.append(free.take(choice, group.role, index, machine, gang))
    if len(places) > 1:
        order = {group.role: number for number, group in enumerate(spec.groups)}
        places.sort(key=lambda place: (order[place.role], place.index))
    return tuple(places)


def hunger(group: Group) -> tuple[int, float, float]:
    """How much one replica of a group takes: the hungriest are placed first."""
    return group.machine.accelerator_milli, group.machine.vcpus, group.machine.memory_gb
