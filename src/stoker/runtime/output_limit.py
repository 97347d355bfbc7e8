"""What is kept of what a program prints: so much a second, and so much in all. What is beyond is counted, its last part kept.

A stream that prints faster than that, or a replica that has printed as much as is kept, is *cut*: its chunks go round a ring in
memory, and what falls out of the ring is counted by its newlines, without becoming lines. When the stream has calmed down, and in
any case at its end, the log says how much was left out there and by which setting, and goes on with what is in the ring. So the
first and the last part are kept, and a failure is known by its last words as ever.

While a stream is cut it is read at a bounded pace: its pipe fills up and holds the program back, and the supervisor stays idle.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List

from .lines import LONGEST_LINE_BYTES, Lines, Log

RECORD_BYTES = 100
"""So much a line takes on a disk beside its text."""

BURST_SECONDS = 4.0
"""So many seconds' worth may come at once."""

TAIL_BYTES = 1 << 20
"""So much is kept of the last part, as it lies on a disk."""

RING_BYTES = 1 << 18
NOTE_SECONDS = 60.0
CUT_READ_SECONDS = 0.002
"""How long a cut stream is let alone after each chunk of 64 KiB: it is read at 32 MB a second, at most."""

_MB = 1_000_000
_MOST_SHOWN_CHARACTERS = 200
_NAMES = {"out": "stdout", "err": "stderr"}


class Meter:
    """A token bucket: so many bytes a second, and those of some seconds at once."""

    def __init__(self, bytes_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`bytes_per_second`: 0 is no limit."""
        self._rate = bytes_per_second
        self._most = self._level = bytes_per_second * BURST_SECONDS
        self._clock = clock
        self._at = clock()

    def take(self, size: int) -> bool:
        """Whether there was room for so many bytes. If not, what there was is gone all the same: they have been printed."""
        if not self._rate:
            return True
        self._fill()
        has_room = size <= self._level
        self._level = max(0.0, self._level - size)
        return has_room

    def is_calm(self) -> bool:
        """Whether so little was printed of late that half of the room is there again."""
        self._fill()
        return self._level >= self._most / 2

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now


class OutputLimit:
    """What is kept of one replica's output: its two streams, and every run of its program."""

    def __init__(
        self, most_bytes: float = 0.0, bytes_per_second: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`most_bytes` in all; `bytes_per_second` of each stream. 0 is no limit."""
        self.most_bytes = most_bytes
        self.bytes_per_second = bytes_per_second
        self.clock = clock
        self.tail_bytes = int(min(TAIL_BYTES, most_bytes / 4)) if most_bytes else TAIL_BYTES
        self._kept_bytes = 0

    @classmethod
    def of_request(cls, request: Dict[str, Any]) -> "OutputLimit":
        """As the engine has said; none, if it said nothing."""
        limits = request.get("limits", {})
        return cls(limits.get("log_bytes", 0.0), limits.get("log_bytes_per_second", 0.0))

    @property
    def is_used_up(self) -> bool:
        """Whether as much is kept as may be."""
        return bool(self.most_bytes) and self._kept_bytes >= self.most_bytes - self.tail_bytes

    def count(self, size: int) -> None:
        """So much more is kept."""
        self._kept_bytes += size

    def why(self) -> str:
        """The setting that has cut a stream."""
        if self.is_used_up:
            return f"log_mb: {self.most_bytes / _MB:g} MB of a replica"
        return f"log_mb_per_second: {self.bytes_per_second / _MB:g} MB a second"


class Output:
    """One stream of a program, on its way to the log. For one thread."""

    def __init__(self, stream: str, log: Log, limit: OutputLimit) -> None:
        """`stream`: `out` or `err`."""
        self._stream = stream
        self._log = log
        self._limit = limit
        self._lines = Lines()
        self._meter = Meter(limit.bytes_per_second, limit.clock)
        self._is_cut = False
        self._ring: Deque[bytes] = deque()
        self._ring_bytes = 0
        self._is_torn = False  # the ring begins within a line
        self._lost_lines = self._lost_bytes = 0
        self._said_at = 0.0
        self._has_news = False

    @property
    def is_cut(self) -> bool:
        """Whether what comes now is not kept as it comes."""
        return self._is_cut

    def feed(self, chunk: bytes) -> None:
        """What the program has printed next."""
        has_room = self._meter.take(len(chunk) + RECORD_BYTES * chunk.count(b"\n"))
        if not self._is_cut and (not has_room or self._limit.is_used_up):
            self._begin()
        if not self._is_cut:
            return self._keep(self._lines.feed(chunk))
        self._log.hear()
        self._has_news = True
        self._remember(chunk)

    def look(self) -> None:
        """To be called now and then: goes on with a stream that has calmed down, and tells of one that has not."""
        if not self._is_cut:
            return
        if self._meter.is_calm() and not self._limit.is_used_up:
            self._go_on()
        elif self._has_news and self._limit.clock() - self._said_at >= NOTE_SECONDS:
            self._say(f"{self._lost()} left out so far ({self._limit.why()}); the last: {self._last_words()}")

    def end(self) -> None:
        """The stream has ended."""
        if self._is_cut:
            self._go_on()
        self._keep(self._lines.end())

    def _begin(self) -> None:
        self._is_cut, self._is_torn = True, False
        self._lost_lines = self._lost_bytes = 0
        self._remember(self._lines.take_rest())
        self._say(
            f"{_NAMES[self._stream]} is cut here ({self._limit.why()}): of what follows only the last part is kept"
        )

    def _go_on(self) -> None:
        """Write down what was left out, and the last part of it."""
        data = b"".join(self._ring)
        self._ring.clear()
        self._ring_bytes = 0
        self._is_cut = False
        if self._is_torn:
            begin = data.find(b"\n", 0, LONGEST_LINE_BYTES) + 1  # of a longer line the end is better than nothing
            self._lose(data[:begin])
            data = data[begin:]
        lines, room = self._lines.feed(data), self._limit.tail_bytes
        first = len(lines)
        while first and room >= len(lines[first - 1]) + RECORD_BYTES:
            first -= 1
            room -= len(lines[first]) + RECORD_BYTES
        self._lost_lines += first
        self._lost_bytes += sum(len(line) + 1 for line in lines[:first])
        if self._lost_bytes:
            self._say(f"{self._lost()} left out here ({self._limit.why()}); the last part follows")
        self._keep(lines[first:])

    def _remember(self, chunk: bytes) -> None:
        self._ring.append(chunk)
        self._ring_bytes += len(chunk)
        while self._ring_bytes - len(self._ring[0]) >= RING_BYTES:
            old = self._ring.popleft()
            self._ring_bytes -= len(old)
            self._lose(old)
            self._is_torn = not old.endswith(b"\n") if old else self._is_torn

    def _lose(self, data: bytes) -> None:
        self._lost_lines += data.count(b"\n")
        self._lost_bytes += len(data)

    def _lost(self) -> str:
        return f"{self._lost_lines:,} lines ({self._lost_bytes / _MB:.1f} MB) of {_NAMES[self._stream]}"

    def _last_words(self) -> str:
        """The last line that is whole, as far as it is to be shown."""
        whole = b"".join(list(self._ring)[-2:]).rpartition(b"\n")[0]
        return (Lines().feed(whole[-_MOST_SHOWN_CHARACTERS:].rpartition(b"\n")[2] + b"\n") or [""])[-1]

    def _keep(self, lines: List[str]) -> None:
        self._limit.count(self._log.write_all(self._stream, lines))

    def _say(self, text: str) -> None:
        self._said_at, self._has_news = self._limit.clock(), False
        self._limit.count(self._log.write_all("service", [text]))
