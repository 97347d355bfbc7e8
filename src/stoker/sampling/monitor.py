"""What the machines of a site show now, and where that is kept: samples of every node come in here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.core.node import Node
from stoker.gpu.metrics import METRICS
from stoker.gpu.reading import GpuProcess, Reading, Xid

from .history import History
from .host import HOST_METRICS
from .sample import Sample

COUNTERS = frozenset(metric.name for metric in (*METRICS, *HOST_METRICS) if metric.is_counter)
HOST = ""
"""The source of a node's own samples."""

MOST_ERRORS = 100
STALE_SECONDS = 30.0
"""What was heard of a machine is shown as what it does now for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNow:
    """A GPU as it was seen last."""

    node: str
    at: float
    reading: Reading
    processes: Sequence[GpuProcess]


class Monitor:
    """One site's. Samples come in from the threads of feeds; any thread may ask."""

    def __init__(self, history: History | None, clock: Callable[[], float]) -> None:
        """`history`: None, if nothing is sampled."""
        self.history = history
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: dict[str, Sample] = {}
        self._processes: dict[str, Sequence[GpuProcess]] = {}
        self._errors: list[tuple[str, Xid]] = []

    def hear(self, nodes: Sequence[Node], sample: Sample) -> None:
        """Take a sample of a machine. `nodes`: the machine as nodes; a GPU that is in none of them counts as the first one's."""
        own: dict[str, list[Reading]] = {node.name: [] for node in nodes}
        for reading in sample.gpus:
            holder = next((node for node in nodes if reading.device.uuid in node.devices), nodes[0])
            own[holder.name].append(reading)
        with self._lock:
            for name, readings in own.items():
                self._newest[name] = replace(sample, gpus=readings)
                if sample.processes is not None:
                    self._processes[name] = sample.processes
            self._errors = [*self._errors, *((nodes[0].name, error) for error in sample.errors)][-MOST_ERRORS:]
        if self.history is not None:
            for name, readings in own.items():
                found = {reading.device.uuid: reading.values for reading in readings if reading.values}
                self.history.add(name, sample.at, {HOST: sample.host, **found})

    def gpus(self) -> list[GpuNow]:
        """The GPUs of all machines that were heard of lately, by node and place."""
        oldest = self._clock() - STALE_SECONDS
        with self._lock:
            newest, processes = dict(self._newest), dict(self._processes)
        return [
            GpuNow(
                node=name,
                at=sample.at,
                reading=reading,
                processes=[found for found in processes.get(name, ()) if found.uuid == reading.device.uuid],
            )
            for name, sample in sorted(newest.items())
            if sample.at >= oldest
            for reading in sample.gpus
        ]

    def host(self, node: str) -> Mapping[str, float]:
        """What a machine shows beside its GPUs; nothing, if it was not heard of lately."""
        with self._lock:
            sample = self._newest.get(node)
        return sample.host if sample is not None and sample.at >= self._clock() - STALE_SECONDS else {}

    def errors(self) -> Sequence[tuple[str, Xid]]:
        """Errors that drivers told of, with the node, the oldest first."""
        with self._lock:
            return list(self._errors)

    def problems(self) -> list[str]:
        """What is wrong with GPUs now, and why samples are not kept."""
        kept = self.history.problem() if self.history is not None else ""
        faulty = [
            f"GPU {now.reading.device.index} of {now.node} ({now.reading.device.uuid}): {now.reading.fault}: "
            f"{now.reading.problem}"
            for now in self.gpus()
            if now.reading.fault is not None
        ]
        return [*faulty, *([kept] if kept else [])]
