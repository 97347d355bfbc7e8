"""When time alone demands a look at something: of each name the earliest moment only, for whoever looks then says when next."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

_MOST_STALE = 1000


class Agenda:
    """Names with a moment each, in seconds since the epoch."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # with entries that are overtaken or dropped: they are passed over

    def __len__(self) -> int:
        return len(self._next)

    def put(self, moment: float, name: str) -> None:
        """Look at it then, if not sooner."""
        if moment < self._next.get(name, math.inf):
            self._next[name] = moment
            heapq.heappush(self._heap, (moment, name))
            if len(self._heap) > _MOST_STALE + 2 * len(self._next):
                self._heap = [(at, name) for name, at in self._next.items()]
                heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        """There is nothing to look at any more."""
        self._next.pop(name, None)

    def due(self, now: float) -> Iterator[str]:
        """Take out what is due, the earliest first."""
        while self.next_at is not None and self.next_at <= now:
            name = heapq.heappop(self._heap)[1]
            del self._next[name]
            yield name

    @property
    def next_at(self) -> float | None:
        """The earliest moment. None: there is none."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
