"""Scores of nodes, kept from one placement to the next: only nodes that have changed are scored anew."""

from __future__ import annotations

import numpy as np

from stoker.core.spec import Machine
from stoker.scheduling.free import Free, Indices, memory_mib, vcpus_milli

MOST_ROWS = 1024
"""Kinds of replicas whose scores are kept."""


class Row:
    """The scores of one kind of replica on every node, and the device that it would take a share of."""

    __slots__ = ("_seen", "amounts", "devices", "machine", "scores")

    def __init__(self, machine: Machine, size: int) -> None:
        self.machine = machine
        self.amounts = np.array([[vcpus_milli(machine.vcpus)], [memory_mib(machine.memory_gb)]], dtype=np.int64)
        self.scores = np.zeros(size)
        self.devices = np.zeros(size, dtype=np.intp)
        self._seen = np.full(size, -1, dtype=np.int64)

    def stale(self, free: Free) -> Indices:
        """The nodes that have changed since they were last scored. They count as scored from now on."""
        found: Indices = (self._seen != free.version).nonzero()[0]
        self._seen[found] = free.version[found]
        return found


class Rows:
    """One row for each kind of replica, of those last asked for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: dict[tuple[float, float, int], Row] = {}

    def of(self, machine: Machine) -> Row:
        """The row of replicas that take as much as this one."""
        key = (machine.vcpus, machine.memory_gb, machine.accelerator_milli)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MOST_ROWS:
                del self._rows[next(iter(self._rows))]
            row = self._rows[key] = Row(machine, self._size)
        return row
