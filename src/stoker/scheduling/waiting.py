"""Who waits, in order: by who has a share, by shape, by the policy's key.

Jobs of one shape ask for the same: where the first of them finds no room, no other does. So a round looks at the first of
each shape, not at everybody.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from stoker.core.job import Job

from .base import Key
from .shapes import Shape

Entry = tuple[Key, float, str]
"""The total order: the policy's key, the time of submission, the id."""

Standing = tuple[bool, float]


def _alone(sharer: str) -> Standing:
    return False, 0.0


class Waiting:
    """The jobs that want a place now, and their order."""

    def __init__(self) -> None:
        self._sharers: dict[str, dict[Shape, list[Entry]]] = {}
        self._places: dict[str, tuple[str, Shape, Entry]] = {}  # job id → where it stands
        self._version = 0  # of the keys
        self._versions: dict[str, int] = {}  # job id → of which version its key is

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job: str) -> bool:
        return job in self._places

    def add(self, job: Job, sharer: str, shape: Shape, key: Key) -> None:
        """Let a job wait."""
        entry = (key, job.submitted_at, job.id)
        insort(self._sharers.setdefault(sharer, {}).setdefault(shape, []), entry)
        self._places[job.id] = (sharer, shape, entry)
        self._versions[job.id] = self._version

    def __iter__(self) -> Iterator[str]:
        """Job ids, in the order in which they came."""
        return iter(self._places)

    def rekey(self, job: str, key: Key) -> None:
        """Give a job another key."""
        self._versions[job] = self._version
        sharer, shape, entry = self._places[job]
        if key != entry[0]:
            entries, anew = self._sharers[sharer][shape], (key, entry[1], entry[2])
            del entries[bisect_left(entries, entry)]
            insort(entries, anew)
            self._places[job] = (sharer, shape, anew)

    def outdate(self) -> None:
        """All keys are of the past now: each is at most what it would be if it were worked out anew."""
        self._version += 1

    def is_outdated(self, job: str) -> bool:
        """Whether its key has not been worked out since."""
        return self._versions[job] != self._version

    def discard(self, job: str) -> None:
        """It waits no more."""
        if job in self._places:
            del self._versions[job]
            sharer, shape, entry = self._places.pop(job)
            entries = self._sharers[sharer][shape]
            del entries[bisect_left(entries, entry)]
            if not entries:
                del self._sharers[sharer][shape]
                if not self._sharers[sharer]:
                    del self._sharers[sharer]

    def sharer(self, job: str) -> str:
        """Whose share a job that waits would take from."""
        return self._places[job][0]

    def shape(self, job: str) -> Shape:
        """The shape of a job that waits."""
        return self._places[job][1]

    def round(self, standing: Callable[[str], Standing], work_out: Callable[[str], None]) -> Round:
        """One walk through all that wait, in the total order. `work_out`: rekeys a job whose key is outdated."""
        return Round(self, self._sharers, standing, work_out)

    def first(self, entries: list[Entry], place: int, work_out: Callable[[str], None]) -> Entry:
        """Who comes at this place of those of one shape. Keys only grow, so those behind one that is up to date stay there."""
        while self.is_outdated(entries[place][2]):
            work_out(entries[place][2])
        return entries[place]


class Round:
    """A walk: the sharer with the lowest standing first, then by name; within it the lowest entry.

    After each job the walker says how it went on: `next_of_shape` to go on behind it, or nothing to leave its shape out.
    """

    def __init__(
        self,
        waiting: Waiting,
        sharers: dict[str, dict[Shape, list[Entry]]],
        standing: Callable[[str], Standing],
        work_out: Callable[[str], None],
    ) -> None:
        self._waiting = waiting
        self._sharers = sharers
        self._work_out = work_out
        self._heads = {
            name: [(waiting.first(entries, 0, work_out), shape.number, 0, shape) for shape, entries in shapes.items()]
            for name, shapes in sharers.items()
        }
        for heads in self._heads.values():
            heapq.heapify(heads)
        is_alone = len(sharers) == 1  # then it does not matter how it stands
        self._standing = _alone if is_alone else standing
        self._order = [(self._standing(name), name) for name in sharers]
        heapq.heapify(self._order)
        self._current: tuple[str, int, int, Shape] | None = None

    def __iter__(self) -> Iterator[tuple[str, str, Shape]]:
        """Sharer, job id, shape."""
        while self._order:
            standing, name = self._order[0]
            heads = self._heads[name]
            if not heads:
                heapq.heappop(self._order)
                continue
            now = self._standing(name)
            if now != standing:  # what it got in this round counts
                heapq.heapreplace(self._order, (now, name))
                continue
            entry, number, place, shape = heapq.heappop(heads)
            self._current = (name, number, place, shape)
            yield name, entry[2], shape

    def next_of_shape(self) -> None:
        """Look at the next of the same sharer and shape, too."""
        assert self._current is not None
        name, number, place, shape = self._current
        entries = self._sharers[name][shape]
        if place + 1 < len(entries):
            entry = self._waiting.first(entries, place + 1, self._work_out)
            heapq.heappush(self._heads[name], (entry, number, place + 1, shape))
