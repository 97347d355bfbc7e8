"""What the machines cost that an attempt holds: a pool's price, or that of the catalog for the machine types asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from stoker.core.job import Placement
from stoker.core.node import Node
from stoker.core.site import Pool
from stoker.core.spec import WHOLE_DEVICE_MILLI, JobSpec, Machine
from stoker.hardware.prices import Price, quote


def hourly_costs(
    spec: JobSpec, places: Iterable[Placement], nodes: Mapping[str, Node], pools: Mapping[str, Pool]
) -> tuple[float | None, float]:
    """US dollars per hour of all that is held (None: of a part nobody knows), and of machines that were ordered for money.

    Of a machine that is shared, a gang pays its share: of that of which it takes the most.
    """
    if spec.pool:
        return 0.0, 0.0  # a rehearsal's machines are not there
    machines = {group.role: group.machine for group in spec.groups}
    shares: dict[str, float] = {}
    known: float | None = 0.0
    for place in places:
        node, machine = nodes[place.node], machines[place.role]
        if node.node_pool in pools:
            shares[node.name] = shares.get(node.name, 0.0) + _share_of_node(machine, node)
            continue
        price = _catalog_price(machine, node, spec.region)
        known = None if price is None or known is None else known + price
    ordered = 0.0
    for name, share in shares.items():
        price = pools[nodes[name].node_pool].usd_per_hour
        known = None if price is None or known is None else known + price * min(1.0, share)
        ordered += (price or 0.0) * min(1.0, share)
    return known, ordered


def share_of(machine: Machine, accelerators: int, vcpus: float, memory_gb: float) -> float:
    """Which part one replica takes of what has so much, by that of which it takes the most: 0 to 1."""
    parts = [
        (machine.accelerator_milli / WHOLE_DEVICE_MILLI, accelerators),
        (machine.vcpus, vcpus),
        (machine.memory_gb, memory_gb),
    ]
    return min(1.0, max((asked / there for asked, there in parts if there), default=0.0))


def _share_of_node(machine: Machine, node: Node) -> float:
    return share_of(machine, len(node.devices), node.vcpus, node.memory_gb)


def _catalog_price(machine: Machine, node: Node, region: str) -> float | None:
    """What the catalog says of the machine that was asked for; of one without a type, of the node's."""
    name = machine.type or node.machine
    if not name or (node.virtual and not machine.type):
        return None
    accelerator = node.accelerator if machine.accelerator_milli else ""
    price = _price(name, accelerator, machine.accelerators, node.region or region, node.spot)
    return price if machine.type or price is None else price * _share_of_node(machine, node)


@lru_cache(maxsize=4096)
def _price(machine_type: str, accelerator: str, count: int, region: str, spot: bool) -> float | None:
    found = quote(machine_type, accelerator, count, region, spot)
    return found.usd_per_hour if isinstance(found, Price) else None
