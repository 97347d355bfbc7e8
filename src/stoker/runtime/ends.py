"""How a program has ended, start after start: what ends in the same way at the same place does so by its own doing."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

MOST_ALIKE = 3
"""So many ends in a row that are alike are enough: another start would end in the same way."""

_SIGNALS = 128  # an exit code of so much and n: a death by signal n
_LONGEST_PLACE_CHARACTERS = 160
_PASSING = re.compile(r"\d+(?::\d\d)+(?:[.,]\d+)?|\d+[.,]\d+(?:[eE][-+]?\d+)?|0x[0-9a-fA-F]+")


class End(NamedTuple):
    """One end: the exit code, the sign that the output bears, how long it had run, and the last line that it printed."""

    code: int
    sign: str
    seconds: float
    place: str

    def is_like(self, other: "End") -> bool:
        """Whether two starts ended by the same signal, after the same line, and about as late.

        Clock times, fractions and addresses in the line differ from run to run and do not count. Whole numbers do: a program
        that goes on from its checkpoint counts its steps by them, and gets further each time.
        """
        if not is_by_signal(self.code):
            return False
        ways = (self.code, self.sign, place_of(self.place)), (other.code, other.sign, place_of(other.place))
        shorter, longer = sorted((self.seconds, other.seconds))
        return ways[0] == ways[1] and longer <= 2 * shorter + 1


class Ends:
    """The ends of one replica in one attempt."""

    def __init__(self) -> None:
        self._last: Optional[End] = None
        self.alike = 0
        """How many of the last ones in a row were alike."""

    def add(self, end: End) -> None:
        """It has ended once more."""
        self.alike = self.alike + 1 if self._last is not None and end.is_like(self._last) else 1
        self._last = end

    def pattern(self) -> str:
        """What is the same each time, for people."""
        place = "" if self._last is None else place_of(self._last.place)
        where = f"after the line {place!r}" if place else "without a word"
        return f"it ended in this way {self.alike} times in a row, {where}"


def is_by_signal(code: int) -> bool:
    """Whether a shown exit code is that of a death by a signal other than SIGTERM.

    Who was told to stop may ask to be run again by 143, as may whoever ends with a code beyond those of signals.
    """
    return code in (6, 11) or (_SIGNALS < code < _SIGNALS + 65 and code != _SIGNALS + 15)


def place_of(line: str) -> str:
    """A last line as the place where a program was: without what differs from run to run, and cut to size."""
    return _PASSING.sub("#", line.strip())[:_LONGEST_PLACE_CHARACTERS]
