"""What nodes do to attempts: nodes that have to be emptied, nodes that are lost, and who is to blame for what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stoker.core.changes import CordonNode, NodeFailed
from stoker.core.job import Attempt, Job, Replica
from stoker.core.node import FAULT_SECONDS, Cordon, Node
from stoker.core.states import Cause, ReplicaState
from stoker.core.world import World
from stoker.runtime.exits import LEASE_OVER

from . import doctor

MARGIN = 1 / 3
"""Of the lease: so much longer than a replica waits its attempt is waited for. A quarter of it is for ending the program, the
rest for clocks that go at different speeds: two attempts overlap only if the node's clock is slower than ours by 18 %."""

STOP_SECONDS = 10.0
"""What a supervisor needs beside the grace."""

DISTINCT_JOBS = 2
"""So many jobs have to have failed by a node within a day for it to be cordoned by itself."""

HOUR_SECONDS = 3600.0
AUTOMATIC = "stoker"
"""Who has cordoned a node: Stoker itself."""


def lost_after_seconds(attempt: Attempt) -> float:
    """How long after the last sign of life a replica has ended for certain."""
    return attempt.lease_seconds * (1 + MARGIN)


def is_infra(replica: Replica) -> bool:
    """Whether a replica was ended by its machine, and not by its program or its user."""
    return replica.sign == LEASE_OVER or doctor.is_infra(replica.sign)


def leaves_at(world: World, job: Job, attempt: Attempt) -> float | None:
    """When an attempt has to be asked to stop because a node of it is to be empty in time. None: no node of it is."""
    found = _first_leaving(world, attempt)
    return None if found is None else world.leaving[found] - job.spec.limits.grace_seconds - STOP_SECONDS


def leaving_message(world: World, attempt: Attempt) -> str:
    """Why it was asked to stop."""
    name = _first_leaving(world, attempt) or ""
    record = world.records.get(name)
    why = record.cordon.why if record is not None and record.cordon is not None else "its machine is about to go away"
    return f"It left the node {name}: {why}."


def _first_leaving(world: World, attempt: Attempt) -> str | None:
    if not world.leaving:
        return None
    names = [place.node for place in attempt.placements if place.node in world.leaving]
    return min(names, key=lambda name: (world.leaving[name], name), default=None)


def lost_nodes(world: World, attempt: Attempt) -> dict[str, None]:
    """The nodes of an attempt for which their engine does not vouch now. Without a lease none can be lost."""
    if not attempt.lease_seconds:
        return {}
    return {place.node: None for place in attempt.placements if not world.is_up(place.node)}


def is_by_node(world: World, attempt: Attempt, replica: Replica) -> bool:
    """Whether a replica was lost with its node."""
    if replica.seen is not ReplicaState.LOST:
        return False
    return replica.sign == LEASE_OVER or node_of(attempt, replica) in lost_nodes(world, attempt)


def faults(world: World, attempt: Attempt, now: float) -> Iterator[NodeFailed]:
    """What an attempt that has ended says against its nodes. Its cause decides: what is stopped by force is lost as well."""
    if attempt.cause is Cause.NODE_LOST:
        guilty = {node_of(attempt, r): "the node was lost" for r in attempt.replicas if is_by_node(world, attempt, r)}
        guilty = guilty or dict.fromkeys(lost_nodes(world, attempt), "the node was lost")
    elif attempt.cause is Cause.REPLICA_LOST:
        lost = [replica for replica in attempt.replicas if replica.seen is ReplicaState.LOST]
        guilty = {node_of(attempt, r): "a replica was lost" for r in sorted(lost, key=lambda r: r.at)[:1]}
    elif attempt.cause in (Cause.REPLICA_FAILED, Cause.REPLICA_CRASHED):
        guilty = {node_of(attempt, r): r.sign for r in attempt.replicas if is_infra(r)}
    else:
        guilty = {}
    for node, what in guilty.items():
        yield NodeFailed(node=node, job=attempt.job, at=now, what=what)


def node_of(attempt: Attempt, replica: Replica) -> str:
    """Where a replica is."""
    return next(p.node for p in attempt.placements if (p.role, p.index) == (replica.role, replica.index))


def lemons(world: World, failed: Iterable[NodeFailed], now: float) -> tuple[list[CordonNode], list[str]]:
    """The nodes to be cordoned because of what was said against them, and, for those that may not be, an alarm.

    Two distinct jobs within a day make a lemon. Never more than a tenth of a pool (the nodes of an engine and a type) an hour,
    but at least one; and never the last that takes work: a doubtful machine is better than none.
    """
    cordons: list[CordonNode] = []
    alarms: list[str] = []
    for name in dict.fromkeys(change.node for change in failed):
        node, record = world.nodes.get(name), world.records.get(name)
        if node is None or node.virtual or record is None or record.cordon is not None:
            continue
        jobs = list(dict.fromkeys(fault.job for fault in record.faults if fault.at >= now - FAULT_SECONDS))
        if len(jobs) < DISTINCT_JOBS:
            continue
        why = f"{len(jobs)} jobs failed by it within a day: {', '.join(jobs[-3:])}"
        fresh = {change.node for change in cordons}
        pool = [n for n in world.nodes.values() if not n.virtual and _pool(n) == _pool(node)]
        others = [n for n in pool if n.name not in (name, *fresh) and world.takes_work(n)]
        lately = [n for n in pool if n.name in fresh or _was_cordoned_by_itself(world, n, now)]
        if not others:
            alarms.append(f"node {name}: {why}; it is not cordoned, for no other node of its kind takes work")
        elif len(lately) >= max(1, len(pool) // 10):
            alarms.append(
                f"node {name}: {why}; it is not cordoned, for {len(lately)} of {len(pool)} were within the hour"
            )
        else:
            cordons.append(CordonNode(node=name, cordon=Cordon(why=why, by=AUTOMATIC, at=now)))
    return cordons, alarms


def _pool(node: Node) -> tuple[str, str]:
    return node.engine, node.accelerator


def _was_cordoned_by_itself(world: World, node: Node, now: float) -> bool:
    record = world.records.get(node.name)
    cordon = None if record is None else record.cordon
    return cordon is not None and cordon.by == AUTOMATIC and cordon.at > now - HOUR_SECONDS
