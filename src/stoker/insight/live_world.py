"""The live world, for those who only look at it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from stoker.core.world import World, apply
from stoker.store.base import Store

Made = TypeVar("Made")

_LONGEST_WAY_BEHIND = 10_000  # changes; beyond, reading all rows anew is quicker


class LiveWorld:
    """A World of its own that follows the story, so that a look costs what has changed since the last one, and not all rows.

    Safe to use from any thread.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._world: World | None = None
        self._lock = threading.Lock()
        self._made: dict[Callable[[World], Any], tuple[int, Any]] = {}  # with the position of the world that it is of

    @contextmanager
    def look(self) -> Iterator[World]:
        """The world as it is now. Nobody may write into it, or keep it beyond this."""
        with self._lock:
            world, self._world = self._world, None  # one that is left half carried on is dropped
            if world is None or self._store.position() - world.position > _LONGEST_WAY_BEHIND:
                world = self._store.world()
            elif self._store.position() != world.position:
                for line in self._store.story(after=world.position):
                    apply(world, line.change)
                    world.position = line.n
            self._world = world
            yield world

    def made(self, make: Callable[[World], Made]) -> Made:
        """What a function makes of the world as it is now. Write nothing into it: many ask, and it is kept till it changes.

        It is kept by the function: give it one of a module, not one made for the occasion.
        """
        with self.look() as world:
            position, made = self._made.get(make, (-1, None))
            if position != world.position:
                made = make(world)
                self._made[make] = world.position, made
            found: Made = made
            return found
