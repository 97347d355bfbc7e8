"""The pools of a site: the machines that could be there, and whether they can be ordered now. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from stoker.core.node import Fault, Node, pool_record, replicas_by_memory
from stoker.core.site import Pool, Site
from stoker.core.spec import JobSpec, Machine
from stoker.core.world import World

from .costs import share_of

PAUSE_SECONDS = 600.0
"""So long nothing is ordered from a pool of which ordered machines did not come."""


MOST_AT_ONCE = 1000
"""Machines of one pool that are considered at a time."""

_LEAST_SHARE = 1e-6  # of a machine, that a replica is taken to need


def machines_of(pool: Pool, numbers: Iterable[int]) -> list[Node]:
    """Machines of a pool as nodes that are not there yet. Their names begin with `~`, and so come after all that are."""
    return [
        Node(
            name=f"~{pool.name}/{number:05}",
            engine=pool.engine,
            region=pool.region,
            zone=pool.zone,
            machine=pool.machine,
            accelerator=pool.accelerator,
            devices=tuple(map(str, range(pool.accelerators))),
            vcpus=pool.vcpus,
            memory_gb=pool.memory_gb,
            most_replicas=replicas_by_memory(pool.memory_gb),
            node_pool=pool.name,
            spot=pool.spot,
        )
        for number in numbers
    ]


def not_there_yet(site: Site, nodes: Iterable[Node], most: int = MOST_AT_ONCE) -> list[Node]:
    """The machines that could be there besides these nodes, of each pool at most so many."""
    if not site.pools:
        return []
    there = count_by_pool(nodes)
    left = {pool.name: min(most, pool.most - there[pool.name]) for pool in site.pools.values()}
    return [node for pool in site.pools.values() for node in machines_of(pool, range(left[pool.name]))]


def pool_of(name: str) -> str:
    """The pool of a machine that is not there yet, by its name."""
    return name[1:].partition("/")[0]


def count_by_pool(nodes: Iterable[Node]) -> Counter[str]:
    """How many of these nodes are of each pool."""
    return Counter(node.node_pool for node in nodes if node.node_pool)


def last_failure(world: World, pool: str, now: float) -> Fault | None:
    """The order of a pool that failed so lately that nothing is ordered from it. None: it may be asked."""
    record = world.records.get(pool_record(pool))
    fault = record.faults[-1] if record is not None and record.faults else None
    return fault if fault is not None and fault.at > now - PAUSE_SECONDS else None


def is_closed(world: World, pool: str) -> bool:
    """Whether an admin wants nothing to be ordered from it."""
    record = world.records.get(pool_record(pool))
    return record is not None and record.cordon is not None


def prices(pools: Mapping[str, Pool], machines: Iterable[tuple[str, int]]) -> float:
    """US dollars per hour of so many machines of each pool. What has no price is dearer than all that have one."""
    known = [(pools[name].usd_per_hour, count) for name, count in machines]
    return sum(math.inf if price is None else price * count for price, count in known)


def takes(spec: JobSpec, pool: Pool) -> bool:
    """Whether machines of a pool are for a job at all: by its region, and, if they may be taken away, by what it said."""
    return not spec.pool and pool.region in ("", spec.region) and (not pool.spot or spec.gives_way)


def is_for(machine: Machine, pool: Pool) -> bool:
    """Whether one replica fits on one machine of a pool."""
    if machine.accelerator_milli:
        choices = machine.accelerator_choices
        if machine.accelerators > pool.accelerators or (choices and pool.accelerator not in choices):
            return False
    return machine.vcpus <= pool.vcpus and machine.memory_gb <= pool.memory_gb


def price_of_one(machine: Machine, pool: Pool) -> float | None:
    """What one replica costs there, if the machine is filled with such."""
    if pool.usd_per_hour is None:
        return None
    share = share_of(machine, pool.accelerators, pool.vcpus, pool.memory_gb)
    return pool.usd_per_hour / int(1 / max(share, _LEAST_SHARE))
