"""A node: a machine on which an engine can start replicas."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeState(StrEnum):
    """Whether a node may be given work."""

    UP = "UP"
    DRAINING = "DRAINING"
    DOWN = "DOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine, real or declared, on which an engine can start replicas."""

    name: str
    engine: str
    region: str = ""  # empty: stands for any region
    zone: str = ""
    rack: str = ""  # nodes of one rack are near each other; empty: unknown
    machine: str = ""
    accelerator: str = ""
    devices: tuple[str, ...] = ()
    vcpus: float = 1.0
    memory_gb: float = 0.0
    virtual: bool = False  # declared, not real: its replicas run on the host of its engine
    soft: bool = False  # one gang alone may take more vCPUs and memory than there are
    pool: str = ""  # only jobs of this pool may use it
    state: NodeState = NodeState.UP
