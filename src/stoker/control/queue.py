"""The queue as users see it: whose turn it is. A reader's own World, which follows the story as the loop's does."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from stoker.clock import Clock
from stoker.core.world import World, apply
from stoker.scheduling.rules import Rules
from stoker.scheduling.scheduler import Scheduler
from stoker.store.base import Store

_LONGEST_WAY_BEHIND = 2000
"""Changes. From further behind it is quicker to read the world anew."""

_SHARE = 0.05
"""Of the time at the most goes into ordering a long queue; in between, positions are a little old."""


class Queue:
    """Tells positions. Safe to call from any thread."""

    def __init__(self, store: Store, rules: Rules, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._lock = threading.Lock()
        self._world: World | None = None
        self._scheduler = Scheduler(rules)
        self._positions: Mapping[str, int] = {}
        self._position = -1
        self._rest_until = 0.0

    def position(self, job: str) -> int | None:
        """How many start no later than this one, itself included: 1 is next. None: it does not wait, or it came just now."""
        with self._lock:
            if self._position != self._store.position() and time.monotonic() >= self._rest_until:
                self._look()
            return self._positions.get(job)

    def _look(self) -> None:
        start = time.monotonic()
        world = self._world = self._caught_up()
        ordered = self._scheduler.order(world, self._clock.now())
        self._positions = {job: place for place, job in enumerate(ordered, start=1)}
        self._position = world.position
        end = time.monotonic()
        self._rest_until = end + (end - start) / _SHARE if end - start > 0.01 else 0.0

    def _caught_up(self) -> World:
        world = self._world
        if world is None or self._store.position() - world.position > _LONGEST_WAY_BEHIND:
            self._scheduler = Scheduler(self._rules)
            return self._store.world()
        for line in self._store.story(after=world.position):
            apply(world, line.change)
            self._scheduler.see(line.change)
            world.position = line.n
        return world
