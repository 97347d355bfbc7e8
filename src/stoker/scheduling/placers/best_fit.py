"""Best fit: each replica goes where it leaves the least behind."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.job import Placement
from stoker.core.spec import Group, JobSpec
from stoker.scheduling.free import Free, Space


class BestFit:
    """The hungriest replicas first, each on the fullest node that fits, all accelerators of the job in one zone.

    Replicas without accelerators prefer nodes that have none.
    """

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, or None."""
        spaces = free.candidates(spec)
        mark = free.checkpoint()
        for zone in self._zones(spec, spaces):
            places = self._place_in(zone, gang, spec, spaces, free)
            if places is not None:
                return places
            free.rollback(mark)
        return None

    @staticmethod
    def _zones(spec: JobSpec, spaces: Sequence[Space]) -> list[str | None]:
        """The zones to try: every zone that has accelerators, or any mixture for a job that wants none."""
        if not spec.accelerator_types:
            return [None]
        return list(dict.fromkeys(s.node.zone for s in sorted(spaces, key=lambda s: s.node.zone) if s.node.devices))

    @staticmethod
    def _place_in(
        zone: str | None, gang: str, spec: JobSpec, spaces: Sequence[Space], free: Free
    ) -> tuple[Placement, ...] | None:
        places: list[Placement] = []
        for group in sorted(spec.groups, key=_hunger, reverse=True):
            wants_devices = group.machine.accelerator_milli > 0
            for index in range(group.count):
                fitting = [
                    s
                    for s in spaces
                    if s.fits(group.machine, gang) and (zone is None or not wants_devices or s.node.zone == zone)
                ]
                if not fitting:
                    return None
                best = min(fitting, key=_left_behind if wants_devices else _devices_spoiled)
                places.append(free.take(best.node.name, group.role, index, group.machine, gang))
        order = {group.role: number for number, group in enumerate(spec.groups)}
        return tuple(sorted(places, key=lambda p: (order[p.role], p.index)))


def _left_behind(space: Space) -> tuple[float | str, ...]:
    return len(space.devices), space.vcpus, space.memory_gb, space.node.name


def _devices_spoiled(space: Space) -> tuple[float | str, ...]:
    return len(space.node.devices), space.vcpus, space.memory_gb, space.node.name


def _hunger(group: Group) -> tuple[int, float, float]:
    return group.machine.accelerator_milli, group.machine.vcpus, group.machine.memory_gb
