"""How much folders hold on their disk: measured a little at a time, without following links, however deep they are.

What is measured belongs to programs that may rearrange it meanwhile. So every folder is opened by its name in the one above,
never by a path, and the way back up is taken only if it leads to where we came from.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

ENTRIES_AT_ONCE = 2000
LOOK_SECONDS = 5.0

_STEP_SECONDS = 0.2
_SHARE = 20  # of the time between two measurements, one of so many parts goes into measuring
_BLOCK_BYTES = 512  # of st_blocks, whatever the disk's own are
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GB = 1e9


class _Level(NamedTuple):
    """A folder on the way down: which it is, and what in it is still to be entered."""

    place: Tuple[int, int]
    names: List[str]


def measure(folders: Sequence[str]) -> Iterator[int]:
    """The bytes that these folders take: those found so far, again and again, and at last all. What is gone counts nothing."""
    total = 0
    linked: Set[Tuple[int, int]] = set()  # files of several names, which count once
    for folder in folders:
        for size in _walk(folder, linked):
            total += size
            yield total
    yield total


def _walk(folder: str, linked: Set[Tuple[int, int]]) -> Iterator[int]:
    """The sizes of what is in a folder, some entries at a time. Holds one folder open, and no path."""
    try:
        current = os.open(folder, _OPEN)
    except OSError:
        return
    way: List[_Level] = []
    try:
        names: List[str] = []
        yield from _sizes(current, names, linked)
        way.append(_Level(_place(os.fstat(current)), names))
        while way:
            if way[-1].names:
                below = _enter(current, way[-1].names.pop())
                if below is None:
                    continue
                os.close(current)
                current, names = below, []
                yield from _sizes(current, names, linked)
                way.append(_Level(_place(os.fstat(current)), names))
                continue
            way.pop()
            if way:
                above = os.open("..", _OPEN, dir_fd=current)
                os.close(current)
                current = above
                if _place(os.fstat(current)) != way[-1].place:
                    return  # somebody has moved it meanwhile: what was found so far counts
    except OSError:
        return
    finally:
        os.close(current)


def _sizes(folder: int, names: List[str], linked: Set[Tuple[int, int]]) -> Iterator[int]:
    """The sizes of the entries of an open folder; `names` becomes those of the folders in it."""
    size = count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                names.append(entry.name)
            if found.st_nlink == 1 or stat.S_ISDIR(found.st_mode) or _place(found) not in linked:
                size += found.st_blocks * _BLOCK_BYTES
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                linked.add(_place(found))
            count += 1
            if count % ENTRIES_AT_ONCE == 0:
                yield size
                size = 0
    yield size


def _enter(folder: int, name: str) -> Optional[int]:
    """A folder within an open one, opened; None if it is gone, may not be read, or is another disk's."""
    try:
        below = os.open(name, _OPEN, dir_fd=folder)
    except OSError:
        return None
    if os.fstat(below).st_dev != os.fstat(folder).st_dev:
        os.close(below)
        return None
    return below


def _place(found: os.stat_result) -> Tuple[int, int]:
    return found.st_dev, found.st_ino


class DiskLimit:
    """What a replica may hold in folders of its own. Looked at every few seconds, and never for long."""

    def __init__(self, folders: Sequence[str], most_bytes: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`most_bytes`: 0 is no limit."""
        self._folders = folders
        self._most_bytes = most_bytes
        self._clock = clock
        self._sizes: Optional[Iterator[int]] = None
        self._due_at = clock()
        self._took_seconds = 0.0

    def look(self) -> str:
        """Why the program has to be ended; empty: it may go on. Costs nothing when asked too soon."""
        started = self._clock()
        if not self._most_bytes or started < self._due_at:
            return ""
        if self._sizes is None:
            self._sizes, self._took_seconds = measure(self._folders), 0.0
        size = next(self._sizes, None)
        now = self._clock()
        self._took_seconds += now - started
        if size is None:
            self._sizes = None
            self._due_at = now + max(LOOK_SECONDS, _SHARE * self._took_seconds)
            return ""
        self._due_at = now + _STEP_SECONDS
        if size <= self._most_bytes:
            return ""
        return (
            f"its working directory and what else is its own hold {size / _GB:.2f} GB, and may hold"
            f" {self._most_bytes / _GB:g} GB (job_disk_gb)"
        )
