"""Time, injected, so that tests and the simulator have their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> float:
        """Seconds since the epoch; never goes back within one process."""
        ...


class SystemClock:
    """The wall clock as it stood at the start, carried on by the monotonic one.

    So a clock that is set forward or back while the server runs ends no job and starts none.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._monotonic() + self._offset


class ForwardClock:
    """Another clock, never seen to go back: where it is set back, time goes on from where it was.

    So no moment that is written lies before an earlier one, and no span between two of them is negative, also where the
    earlier one was written by a server before this one. Safe to ask from any thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ahead_seconds = 0.0
        self._last = float("-inf")

    def now(self) -> float:
        """Seconds since the epoch."""
        with self._lock:
            now = self._clock.now() + self._ahead_seconds
            if now < self._last:
                self._ahead_seconds += self._last - now
                now = self._last
            self._last = now
            return now

    def go_on_from(self, moment: float) -> float:
        """Be there at least: the last moment that was written. Returns by how many seconds this is ahead of the other clock."""
        with self._lock:
            self._last = max(self._last, moment)
        self.now()
        return self._ahead_seconds


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.time += seconds
