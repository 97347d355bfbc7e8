"""Where in a growing file of lines a moment is, so that nobody reads the file from its beginning to find it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

BLOCK_BYTES = 64 * 1024
"""A finder reads so much that is not wanted, at most; sixteen bytes of memory stand for each."""


class Place(NamedTuple):
    """The beginning of a block: its offset, and the moment of the line before it."""

    offset: int
    moment: int


class LogIndex:
    """The blocks of one file. Moments grow from line to line."""

    def __init__(self) -> None:
        self._offsets = array("q", [0])
        self._moments = array("q", [0])
        self.next_offset = BLOCK_BYTES  # a line that begins here or later begins a block

    def add(self, offset: int, moment: int) -> None:
        """Begin a block with the line at an offset; `moment`: that of the line before it."""
        self._offsets.append(offset)
        self._moments.append(moment)
        self.next_offset = offset + BLOCK_BYTES

    def find(self, moment: int) -> int:
        """The block in which the first line of a moment or later is, or would be."""
        return max(0, bisect_left(self._moments, moment) - 1)

    def place(self, block: int) -> Place:
        """Where a block begins."""
        return Place(self._offsets[block], self._moments[block])

    def end(self, block: int) -> int | None:
        """Where a block ends; None: it is the last one, which grows."""
        return self._offsets[block + 1] if block + 1 < len(self._offsets) else None
