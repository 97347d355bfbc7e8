"""Time, injected, so that tests and the simulator have their own."""

from __future__ import annotations

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
