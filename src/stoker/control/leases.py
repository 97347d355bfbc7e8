"""Leases: when a replica on a node that does not answer has ended for certain.

A replica with a lease ends itself when it could renew with nobody for so long (runtime/lease.py). So one that we have not heard
of, on a node for which its engine does not vouch, is over a lease and a margin after the last sign of life, and not before:
only then may its attempt end, its devices be given away and its job be started elsewhere.

Signs of life are kept in memory: a beat writes nothing. When a server starts, everybody counts as heard of at that moment.
"""

from __future__ import annotations

from stoker.core.changes import Note
from stoker.core.ids import replica_name
from stoker.core.job import Attempt, Replica
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.core.world import World
from stoker.scheduling.nodes import lost_after_seconds, lost_nodes, node_of


class Leases:
    """Who was heard of when. `hear` may be called from any thread; the rest belongs to the loop."""

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}  # replica id → when it last said anything
        self._silent: dict[str, float] = {}  # nodes that hold leases and are not vouched for → since when
        self._world: World | None = None

    def hear(self, attempt: Attempt, replica: Replica, now: float) -> None:
        """A replica has said something. Of one without a lease nothing is kept."""
        if attempt.lease_seconds:
            self._heard[f"{attempt.id}/{replica_name(replica.role, replica.index)}"] = now

    def forget(self, attempt: Attempt) -> None:
        """It has ended."""
        if attempt.lease_seconds:
            self._world = None  # and its nodes are silent for nobody else, perhaps
            for replica in attempt.replicas:
                self._heard.pop(f"{attempt.id}/{replica_name(replica.role, replica.index)}", None)

    def run_out(self, world: World, now: float, *, are_nodes_new: bool) -> list[Note]:
        """The replicas that have ended for certain. `are_nodes_new`: some node is not what it was at the last look."""
        if are_nodes_new or world is not self._world:
            self._world = world
            silent = [name for attempt in world.attempts.values() for name in lost_nodes(world, attempt)]
            self._silent = {name: self._silent.get(name, now) for name in silent}
        if not self._silent:
            return []
        return [
            self._note(attempt, replica, now)
            for attempt in world.attempts.values()
            if attempt.lease_seconds
            for replica in attempt.replicas
            if replica.seen not in FINAL_REPLICA_STATES and self._is_over(attempt, replica, now)
        ]

    def _is_over(self, attempt: Attempt, replica: Replica, now: float) -> bool:
        silent_since = self._silent.get(node_of(attempt, replica))
        if silent_since is None:
            return False
        return now >= max(silent_since, self._last_heard(attempt, replica)) + lost_after_seconds(attempt)

    def _last_heard(self, attempt: Attempt, replica: Replica) -> float:
        return self._heard.get(f"{attempt.id}/{replica_name(replica.role, replica.index)}", 0.0)

    @staticmethod
    def _note(attempt: Attempt, replica: Replica, now: float) -> Note:
        node, waited = node_of(attempt, replica), lost_after_seconds(attempt)
        return Note(
            attempt=attempt.id,
            role=replica.role,
            index=replica.index,
            seen=ReplicaState.LOST,
            at=now,
            message=f"its node {node} answers no more, and nothing was heard of it for {waited:g} s",
        )
