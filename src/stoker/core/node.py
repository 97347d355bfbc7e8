"""A node: a machine on which an engine can start replicas; and what is kept of it beside what its engine sees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FAULT_SECONDS = 86400.0
"""A fault counts for so long."""

MOST_FAULTS = 50


REPLICA_GB = 0.125
"""So much memory a replica on a machine of a cluster needs at least, whatever it runs: its supervisor and what starts that."""


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
    most_replicas: int = 0  # that its machine runs at a time; 0: nobody has said
    shares_machine: bool = False  # with the other nodes of its engine: they have `most_replicas` all together
    pool: str = ""  # only jobs of this pool may use it
    node_pool: str = ""  # the site's pool from which it was ordered; empty: it was always there
    spot: bool = False  # it may be taken away at any time: only for jobs that give way
    state: NodeState = NodeState.UP
    lease_seconds: float = 0.0  # how long its replicas run on unheard; 0: it can only be lost with the server itself
    leaving_at: float | None = None  # by when it has to be empty, as its engine was told: maintenance, a spot machine


def replicas_by_memory(memory_gb: float) -> int:
    """How many replicas a machine of so much memory runs at a time; 0: its memory is unknown."""
    return max(1, int(memory_gb / REPLICA_GB)) if memory_gb else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Somebody's wish that a node be given nothing new."""

    why: str
    by: str
    at: float
    empty_at: float | None = None  # drained: by when what runs there has to be gone; None: it runs to its own end


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure for which a node is to blame, or an order that a pool did not fill."""

    job: str
    at: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What is kept of a node, or of a pool (`pool_record`), beside what its engine sees of it. It outlives the node's absence."""

    node: str
    cordon: Cordon | None = None
    faults: tuple[Fault, ...] = ()  # of the last day, oldest first


POOL_RECORD = "pool:"


def pool_record(pool: str) -> str:
    """The name under which something is kept of a pool of the site: `pool:t4x4`. No node is called so."""
    return POOL_RECORD + pool
