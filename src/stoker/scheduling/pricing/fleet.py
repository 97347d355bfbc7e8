"""The nodes of a site by kind: of one type of accelerator, one size, one region and one pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.core.node import Node
from stoker.core.spec import WHOLE_DEVICE_MILLI
from stoker.scheduling.free import Free, Indices, memory_mib, vcpus_milli

from .demand import Ask

_NOTE = "fleet"


class NodeKind(NamedTuple):
    """Nodes that are alike, with nobody on them."""

    accelerator: str
    devices: int
    vcpus_milli: int
    memory_mib: int
    region: str
    pool: str

    @classmethod
    def of(cls, node: Node) -> NodeKind:
        """The kind of a node."""
        return cls(
            accelerator=node.accelerator,
            devices=len(node.devices),
            vcpus_milli=vcpus_milli(node.vcpus),
            memory_mib=memory_mib(node.memory_gb),
            region=node.region,
            pool=node.pool,
        )

    def is_near(self, ask: Ask) -> bool:
        """Whether it is of the pool and the region of a replica."""
        return self.pool == ask.pool and (not self.region or self.region == ask.region)

    def accepts(self, ask: Ask) -> bool:
        """Whether it is near and has the accelerators, whatever its size."""
        wants = not ask.devices or (self.devices > 0 and (not ask.accelerators or self.accelerator in ask.accelerators))
        return wants and self.is_near(ask)


class Fleet(NamedTuple):
    """How many nodes there are of each kind. Equal fleets have equal prices."""

    kinds: tuple[NodeKind, ...]
    counts: tuple[int, ...]

    def capacity_milli(self) -> NDArray[np.float64]:
        """Thousandths of devices of each kind, all nodes together."""
        pairs = zip(self.kinds, self.counts, strict=True)
        return np.array([float(kind.devices * count * WHOLE_DEVICE_MILLI) for kind, count in pairs])

    def accepts(self, asks: list[Ask]) -> NDArray[np.bool_]:
        """For each ask (rows), which kinds (columns) accept it, whatever their size."""
        return self._table(asks, NodeKind.accepts)

    def is_near(self, asks: list[Ask]) -> NDArray[np.bool_]:
        """For each ask (rows), which kinds (columns) are of its pool and region."""
        return self._table(asks, NodeKind.is_near)

    def _table(self, asks: list[Ask], holds: Callable[[NodeKind, Ask], bool]) -> NDArray[np.bool_]:
        known: dict[Ask, list[bool]] = {}
        rows = []
        for ask in asks:
            wish = ask._replace(vcpus_milli=0, memory_mib=0, each_milli=0, devices=min(1, ask.devices))
            if wish not in known:
                known[wish] = [holds(kind, wish) for kind in self.kinds]
            rows.append(known[wish])
        return np.array(rows, dtype=bool).reshape(len(asks), len(self.kinds))


def fleet_of(free: Free) -> tuple[Fleet, Indices]:
    """The fleet of these nodes, and the kind of each node as a place in it."""
    found: tuple[Fleet, Indices] | None = free.notes.get(_NOTE)
    if found is None:
        of_nodes = [NodeKind.of(node) for node in free.nodes]
        counts = Counter(of_nodes)
        kinds = tuple(sorted(counts))
        place = {kind: n for n, kind in enumerate(kinds)}
        fleet = Fleet(kinds, tuple(counts[kind] for kind in kinds))
        found = free.notes[_NOTE] = (fleet, np.array([place[kind] for kind in of_nodes], dtype=np.intp))
    return found
