"""What the written state now demands of the engines. Asked again every tick, so a crash loses nothing."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.changes import Order, Start, Stop
from stoker.core.job import Attempt
from stoker.core.states import AttemptState, ReplicaState
from stoker.core.world import World

from .nodes import lost_nodes
from .settle import force_after_seconds


def due(world: World, now: float, among: Iterable[Attempt]) -> list[Order]:
    """Of these attempts, start what is placed and was not all seen yet; stop what is stopping."""
    orders: list[Order] = []
    for attempt in among:
        if attempt.state is AttemptState.STOPPING:
            job = world.jobs[attempt.job]
            late = attempt.stopping_at is not None and now >= attempt.stopping_at + force_after_seconds(job)
            orders.append(Stop(attempt.id, force=late))
        elif (
            attempt.state in (AttemptState.PLACED, AttemptState.STARTING)
            and any(replica.seen is ReplicaState.NOTHING for replica in attempt.replicas)
            and not lost_nodes(world, attempt)  # one that may be lost answers nobody: that is no failure to start
        ):
            orders.append(Start(attempt.id))
    return orders
