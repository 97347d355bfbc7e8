"""What a site has, and what it orders, as offers to train on (hardware/choosing/offers.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stoker.core.node import Node
from stoker.core.site import Pool
from stoker.core.world import World
from stoker.hardware.accelerators import find_accelerator
from stoker.hardware.choosing.offers import CPU, Offer, Place
from stoker.scheduling.free import Free

DECLARED = "declared, not real: what runs there runs on the server's machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """A node that may be given work, and how many devices of it nobody holds."""

    node: Node
    free: float


def rooms_of(world: World) -> list[NodeRoom]:
    """The nodes that take work, with what is free on them; those of rehearsals are left out."""
    nodes = [node for node in world.nodes.values() if not node.pool and world.takes_work(node)]
    room = Free(nodes)
    for attempt in world.attempts.values():
        room.hold(world.jobs[attempt.job].spec, attempt)
    return [NodeRoom(node=node, free=int(room.milli[room.index[node.name]]) / 1000) for node in nodes]


def site_offers(
    rooms: Iterable[NodeRoom], pools: Mapping[str, Pool], memory_bytes: Mapping[str, float]
) -> Iterator[Offer]:
    """The machines of a site, those alike together, and the pools. `memory_bytes`: of devices, as their driver tells."""
    alike: dict[tuple[object, ...], list[NodeRoom]] = {}
    for room in rooms:
        node = room.node
        key = (node.accelerator, len(node.devices), node.vcpus, node.memory_gb, node.node_pool, node.virtual)
        alike.setdefault(key, []).append(room)
    for found in alike.values():
        yield from _of_nodes(found, pools, memory_bytes)
    for pool in pools.values():
        offer = _of_pool(pool)
        if offer is not None:
            yield offer


def unknown_accelerators(rooms: Iterable[NodeRoom]) -> list[str]:
    """The accelerators of a site whose figures nobody knows: nothing can be said of them."""
    names = {room.node.accelerator for room in rooms if room.node.devices}
    return sorted(name for name in names if (found := find_accelerator(name)) is None or found.chip is None)


def _of_nodes(rooms: list[NodeRoom], pools: Mapping[str, Pool], memory_bytes: Mapping[str, float]) -> Iterator[Offer]:
    node = rooms[0].node
    pool = pools.get(node.node_pool)
    usd = pool.usd_per_hour if pool is not None else None
    name = node.name if len(rooms) == 1 else f"{node.name} and {len(rooms) - 1} like it"
    if not node.devices:
        yield Offer(
            place=Place.SITE,
            name=CPU,
            machine=name,
            vcpus=node.vcpus,
            memory_gb=node.memory_gb,
            usd_per_hour=usd,
            notes=(DECLARED,) if node.virtual else (),
        )
        return
    found = find_accelerator(node.accelerator)
    if found is None or found.chip is None:
        return
    told = [memory_bytes[device] for room in rooms for device in room.node.devices if device in memory_bytes]
    free, whole = sum(room.free for room in rooms), float(sum(len(room.node.devices) for room in rooms))
    count = 1
    while count <= len(node.devices):
        yield Offer(
            place=Place.SITE,
            name=found.name,
            chip=found.chip,
            count=count,
            machine=name,
            vcpus=node.vcpus,
            memory_gb=node.memory_gb,
            device_bytes=min(told) if told else (found.chip.memory_gb or 0.0) * 1e9,
            usd_per_hour=None if usd is None else usd * count / len(node.devices),
            notes=(_free_words(free, whole, found.name), *((DECLARED,) if node.virtual else ())),
            free=free,
            whole=whole,
        )
        count = len(node.devices) if count < len(node.devices) < 2 * count else 2 * count


def _of_pool(pool: Pool) -> Offer | None:
    found = find_accelerator(pool.accelerator) if pool.accelerator else None
    if pool.accelerator and (found is None or found.chip is None):
        return None
    chip = found.chip if found is not None else None
    return Offer(
        place=Place.POOL,
        name=found.name if found is not None else CPU,
        chip=chip,
        count=pool.accelerators,
        machine=pool.machine or pool.name,
        region=pool.region,
        vcpus=pool.vcpus,
        memory_gb=pool.memory_gb,
        device_bytes=(chip.memory_gb or 0.0) * 1e9 if chip is not None else 0.0,
        usd_per_hour=pool.usd_per_hour,
        notes=(f"ordered from the pool {pool.name} when a job needs it",),
        regions=1,
    )


def _free_words(free: float, whole: float, name: str) -> str:
    if free <= 0:
        return f"all {whole:g} of this site are held now: a job would wait"
    return f"{free:g} of {whole:g} {name} of this site {'is' if free == 1 else 'are'} free now"
