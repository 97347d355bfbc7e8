"""How many more replicas each machine runs. Each has processes of its own, which need memory and ids whatever it asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.core.node import Node

UNLIMITED = 1 << 40
"""Slots of a machine of which nobody has said how many it has."""


class Slots:
    """What is free of them, machine by machine: nodes that share one share its slots."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        machines: dict[str, int] = {}
        self._of_node = [
            machines.setdefault(f"{node.engine}/" + ("" if node.shares_machine else node.name), len(machines))
            for node in nodes
        ]
        self._of_engine = {node.engine: self._of_node[n] for n, node in enumerate(nodes) if node.shares_machine}
        self._array = np.array(self._of_node, dtype=np.intp)
        most = [0] * len(machines)
        for node, machine in zip(nodes, self._of_node, strict=True):
            most[machine] = max(most[machine], node.most_replicas)
        self._left = np.array([count or UNLIMITED for count in most], dtype=np.int64)
        self.is_limited = any(most)

    def copy_from(self, other: Slots) -> None:
        """Take what is taken there. `other`: of the first of these nodes."""
        self._left[: len(other._left)] = other._left

    def any_on(self, among: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Of these nodes, whether their machines run one more."""
        found: NDArray[np.bool_] = self._left[self._array[among]] > 0
        return found

    def on(self, node: int) -> int:
        """How many more the machine of a node runs."""
        return int(self._left[self._of_node[node]])

    def on_all(self, among: NDArray[np.intp]) -> int:
        """How many more the machines of these nodes run, all together."""
        return int(self._left[np.unique(self._array[among])].sum())

    def has(self, engine: str) -> bool:
        """Whether all nodes of an engine are one machine that is known."""
        return engine in self._of_engine

    def change(self, node: int, engine: str, count: int) -> None:
        """So many more are free on the machine of a node; of one that is none of these, on that of its engine."""
        self._left[self._of_node[node] if node >= 0 else self._of_engine[engine]] += count
