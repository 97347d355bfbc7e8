"""What is free, together with machines of pools that are not there yet: on it is tried what an order would have to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from stoker.core.job import Job, Placement
from stoker.core.node import Node
from stoker.core.site import Pool
from stoker.core.spec import Machine

from .free import Free, Step
from .pools import MOST_AT_ONCE, count_by_pool, machines_of, pool_of


class Supply:
    """Made once for a round, and kept up with what is taken in it."""

    def __init__(self, free: Free, pools: Mapping[str, Pool], of_pools: Iterable[Node]) -> None:
        """`of_pools`: the machines of pools that are there."""
        self._free = free
        self._pools = pools
        self._there = count_by_pool(of_pools)
        self._held: list[tuple[Placement, Machine, str]] = []  # on machines that are to come, with the job
        self.names: dict[str, Node] = {}  # machines that are to come, on which jobs of this round count
        self._all: Free | None = None  # with every machine that could come
        self._steps: list[Step] = []  # what had been taken when it was last brought up to date
        self._first: dict[str, int] = {}  # pool → the place of its first machine that is not there, if it may have any

    @property
    def coming(self) -> Counter[str]:
        """For each pool, how many machines are to come."""
        return count_by_pool(self.names.values())

    def left(self, pool: Pool, job: Job) -> int:
        """How many more machines of a pool may be ordered for a job."""
        return max(0, min(self._could_come(pool) - self.coming[pool.name], job.spec.replicas))

    def hold(self, place: Placement, machine: Machine, gang: str) -> None:
        """A job counts on a machine that is to come."""
        pool = self._pools[pool_of(place.node)]
        if place.node not in self.names:
            self.names[place.node] = machines_of(pool, [_number(place.node)])[0]
        self._held.append((place, machine, gang))
        if self._all is not None:
            self._all.take_again(place, machine, gang)
            self._all.settle()

    def free(self, limits: Mapping[str, int]) -> Free:
        """What is free, with the machines that come of these pools, and so many more of each; to be rolled back after use."""
        found = self._brought_up_to_date()
        size = len(self._free.nodes)
        found.closed[:size] = self._free.closed
        found.closed[size:] = True
        coming = self.coming
        for name, count in limits.items():
            first = self._first.get(name, len(found.nodes))
            found.closed[first : first + coming[name] + count] = False
        found.note_closed()
        return found

    def _could_come(self, pool: Pool) -> int:
        return max(0, min(pool.most - self._there[pool.name], MOST_AT_ONCE))

    def _brought_up_to_date(self) -> Free:
        """What has been taken or given back on nodes that are there since the last look, is so here as well."""
        steps = self._free.since(0)
        known = len(self._steps)
        if self._all is None or len(steps) < known or any(a is not b for a, b in zip(steps, self._steps, strict=False)):
            self._all = self._made()
        else:
            self._all.redo(steps[known:])
            self._all.settle()
        self._steps = steps
        return self._all

    def _made(self) -> Free:
        could_come = {name: machines_of(pool, range(self._could_come(pool))) for name, pool in self._pools.items()}
        made = self._free.with_more([node for nodes in could_come.values() for node in nodes])
        self._first = {name: made.index[nodes[0].name] for name, nodes in could_come.items() if nodes}
        for place, machine, gang in self._held:
            made.take_again(place, machine, gang)
        made.settle()
        return made


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])
