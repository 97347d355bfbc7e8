"""How a program has ended, start after start: what ends in the same way at the same place does so by its own doing."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

MOST_ALIKE = 3
"""So many ends in a row that are alike are enough: another start would end in the same way."""

_SIGNALS = 128  # an exit code of so much and n: a death by signal n
_LONGEST_PLACE_CHARACTERS = 160
_MOST_LOOKED_AT = 400  # of the characters of a line
_PASSING = re.compile(r"(?<!\d)\d{1,4}(?::\d\d){1,2}(?:[.,]\d{1,9})?|\b0x[0-9a-fA-F]{1,16}\b")
_SOON_SECONDS = 10.0
"""Who is killed without a word is likely killed by itself only if it is so soon."""


class End(NamedTuple):
    """One end: the exit code, the sign that the output bears, how long it had run, and the last line that it printed."""

    code: int
    sign: str
    seconds: float
    place: str

    def is_like(self, other: "End") -> bool:
        """Whether two starts ended by the same signal, after the same line, and as late: by a tenth and two seconds.

        Clock times and addresses in the line differ from run to run and do not count. Other numbers do: a program that goes on
        from its checkpoint gets further each time. One without a line has to end soon.
        """
        if not is_by_signal(self.code) or (not self.place.strip() and self.seconds > _SOON_SECONDS):
            return False
        ways = (self.code, self.sign, place_of(self.place)), (other.code, other.sign, place_of(other.place))
        shorter, longer = sorted((self.seconds, other.seconds))
        return ways[0] == ways[1] and longer <= 1.1 * shorter + 2


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
    return _PASSING.sub("#", line.strip()[:_MOST_LOOKED_AT])[:_LONGEST_PLACE_CHARACTERS]
