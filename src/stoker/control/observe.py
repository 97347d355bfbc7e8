"""What is seen: the engines' nodes, and the replicas of live attempts. Only news becomes a change."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from stoker.core.changes import Change, NodeGone, NodeSeen, Note
from stoker.core.errors import StokerError
from stoker.core.ids import replica_name
from stoker.core.job import Attempt
from stoker.core.node import Node
from stoker.core.states import FINAL_REPLICA_STATES
from stoker.core.world import World, tells_news
from stoker.engines.base import Engine, Seen

from .commands import nodes_of_ended_rehearsals

_LINES_AT_ONCE = 5000
_PARTS_A_LOOK = 8
_log = logging.getLogger("stoker.loop")


class Lines(Protocol):
    """Where the lines of replicas are kept."""

    def last_number(self, attempt: str, replica: str) -> int:
        """The number of the last line that is kept of a replica."""
        ...

    def append(self, attempt: str, replica: str, lines: Sequence[Mapping[str, Any]]) -> int:
        """Keep what is new. Returns the replica's last number."""
        ...

    def end(self, attempt: str, replica: str) -> None:
        """The replica has no more lines."""
        ...


class NodeWatch:
    """Watches the engines' nodes. An engine whose nodes are what they were gives the same sequence again, and costs nothing."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self._last: dict[str, Sequence[Node]] = {}
        self._world: World | None = None

    def look(self, world: World) -> list[Change]:
        """What the nodes are now, where that is not what is written."""
        found = {name: engine.nodes() for name, engine in self._engines.items()}
        is_same = world is self._world and all(found[name] is self._last.get(name) for name in found)
        self._world, self._last = world, found
        news: list[Change] = []
        if not is_same:
            seen = {node.name: node for nodes in found.values() for node in nodes}
            news += [NodeSeen(node=node) for name, node in seen.items() if world.nodes.get(name) != node]
            news += [NodeGone(name=name) for name, node in world.nodes.items() if not node.pool and name not in seen]
        return news


def rehearsals_gone(world: World) -> list[NodeGone]:
    """The nodes of a rehearsal go with it."""
    pooled = [world.nodes[name] for name in world.pooled]
    return [NodeGone(name=node.name) for node in nodes_of_ended_rehearsals(pooled, world.jobs)]


def observe_replicas(engines: Mapping[str, Engine], world: World, logs: Lines, now: float) -> list[Change]:
    """What the engines see of live attempts, where that is news. One question per engine.

    A replica counts as ended only once its last line is kept (P7): what it could not ship is taken from the engine.
    """
    notes: list[Change] = []
    for name, engine in engines.items():
        attempts = world.attempts if len(engines) == 1 else _of_engine(world, name)
        for attempt_id, found in (engine.poll(attempts) if attempts else {}).items():
            attempt = world.attempts[attempt_id]
            for seen in found:
                note = _note(attempt_id, seen, now)
                if tells_news(attempt, note):
                    if seen.state in FINAL_REPLICA_STATES and not _fetch_lines(engine, attempt, seen, logs):
                        continue  # it ends when its lines are kept
                    notes.append(note)
    return notes


def _of_engine(world: World, name: str) -> dict[str, Attempt]:
    return {attempt.id: attempt for attempt in world.attempts.values() if attempt.engine == name}


def _note(attempt: str, seen: Seen, now: float) -> Note:
    return Note(
        attempt=attempt,
        role=seen.role,
        index=seen.index,
        seen=seen.state,
        at=now,
        exit_code=seen.exit_code,
        addresses=seen.addresses,
        message=seen.message,
        out_of_memory=seen.out_of_memory,
        restarts=seen.restarts,
        sign=seen.sign,
        evidence=seen.evidence,
        place=seen.place,
        alike=seen.alike,
        standing=seen.standing,
    )


def _fetch_lines(engine: Engine, attempt: Attempt, seen: Seen, logs: Lines) -> bool:
    """Keep what the replica could not ship. Returns whether that is done: of much it keeps a part, for other jobs wait."""
    replica = replica_name(seen.role, seen.index)
    try:
        lines = engine.logs(attempt.id, replica, logs.last_number(attempt.id, replica))
        for _ in range(_PARTS_A_LOOK):
            part = list(islice(lines, _LINES_AT_ONCE))
            logs.append(attempt.id, replica, part)
            if len(part) < _LINES_AT_ONCE:
                logs.end(attempt.id, replica)
                return True
        return False
    except (OSError, StokerError) as error:
        _log.error("the last lines of %s/%s cannot be kept yet: %s", attempt.id, replica, error)
        return False
