"""What of a job's output is beyond what is kept of it: counted by replica, with the last part of each in memory.

It is the second line of defence. A supervisor keeps its replica's output within its part (runtime/output_limit.py); here many
attempts add up, and programs that can read their replica's token post what they like. What is not kept is acknowledged, so that
nobody ships it again. A note in the log takes the number of a line that is left out, so numbers grow as ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.clock import Clock

LONGEST_TEXT_CHARACTERS = 1 << 16
RECORD_BYTES = 100
"""So much a line takes on a disk beside its text."""

TAIL_BYTES = 1 << 16
NOTE_SECONDS = 60.0
_MB = 1_000_000

Line = Mapping[str, Any]


def shortened(text: str) -> str:
    """A text as it is kept: of one that no supervisor would ship the beginning."""
    more = len(text) - LONGEST_TEXT_CHARACTERS
    return text if more <= 0 else f"{text[:LONGEST_TEXT_CHARACTERS]}… ({more:,} characters more are left out)"


class _Excess:
    """Of one replica."""

    def __init__(self) -> None:
        self.lines = self.bytes = 0
        self.number = 0  # of the last line that is left out
        self.tail: deque[Line] = deque()
        self.tail_bytes = 0
        self.noted_at = 0.0
        self.has_news = False

    def add(self, line: Line) -> None:
        self.tail.append(line)
        self.tail_bytes += _size(line)
        while self.tail_bytes > TAIL_BYTES:
            self.leave_out()

    def leave_out(self) -> None:
        line = self.tail.popleft()
        self.tail_bytes -= _size(line)
        self.lines += 1
        self.bytes += _size(line)
        self.number = line["n"]
        self.has_news = True


class LogLimit:
    """How much is kept of one file of lines."""

    def __init__(self, most_bytes: float, clock: Clock, *, is_told: bool = True) -> None:
        """`most_bytes`: 0 is no limit. `is_told`: whether notes belong into the file."""
        self._most_bytes = most_bytes
        self._clock = clock
        self._is_told = is_told
        self._excess: dict[tuple[str, str], _Excess] = {}

    def is_reached(self, size: int) -> bool:
        """Whether a file of this size holds as much as is kept."""
        return bool(self._most_bytes) and size >= self._most_bytes

    def instead(self, replica: tuple[str, str], lines: Sequence[Line]) -> list[Line]:
        """What is written for lines that are beyond it: now and then a note. `replica`: its attempt and name."""
        if not self._is_told or not lines:
            return []
        found, now = self._excess.get(replica), self._clock.now()
        is_first = found is None
        if found is None:
            found = self._excess[replica] = _Excess()
        for line in lines:
            found.add(line)
        if is_first and not found.lines:
            found.leave_out()  # the note stands in its place
        if is_first:
            text = f"the log of this job is full ({self._why()}): of what follows only the last part is kept"
        elif found.has_news and now - found.noted_at >= NOTE_SECONDS:
            text = f"{_left_out(found)} so far ({self._why()})"
        else:
            return []
        found.noted_at, found.has_news = now, False
        return [_note(found.number, now, text)]

    def end(self, replica: tuple[str, str]) -> list[Line]:
        """What is written at the end of a replica: how much was left out, and the last part."""
        found = self._excess.pop(replica, None)
        if found is None:
            return []
        if len(found.tail) and not found.has_news:
            found.leave_out()  # for the number of the note
        text = f"{_left_out(found)} here ({self._why()}); the last part follows"
        return [_note(found.number, self._clock.now(), text), *found.tail]

    def _why(self) -> str:
        return f"job_log_mb: {self._most_bytes / _MB:g} MB"


def _left_out(found: _Excess) -> str:
    return f"{found.lines:,} lines ({found.bytes / _MB:.1f} MB) of this replica are left out"


def _size(line: Line) -> int:
    return len(line["m"]) + RECORD_BYTES


def _note(number: int, now: float, text: str) -> Line:
    return {"n": number, "t": now, "s": "service", "m": text}
