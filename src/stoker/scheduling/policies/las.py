"""Least attained service first (2D-LAS): no estimates. Source: Tiresias (NSDI'19)."""

from __future__ import annotations

from bisect import bisect_right

from stoker.scheduling.base import Facts, Key, Shift
from stoker.scheduling.patience import STOPPED_SECONDS, patience_seconds


class Las:
    """Levels of attained device-hours: a lower level first, within a level who was submitted earlier.

    A job sinks to the next level as it runs, and who waits on a lower level may have its place.
    """

    shifts = Shift.NEVER

    def __init__(
        self, first_gpu_hours: float = 1.0, factor: float = 4.0, levels: int = 6, patience: float = STOPPED_SECONDS
    ) -> None:
        self._patience_seconds = patience
        self._floors = [first_gpu_hours * 3600 * factor**n for n in range(int(levels) - 1)]

    def level(self, facts: Facts) -> int:
        """How far it has sunk."""
        return bisect_right(self._floors, facts.service_gpu_seconds)

    def key(self, facts: Facts) -> Key:
        """The level."""
        return (self.level(facts),)

    def claim(self, waiter: Facts) -> Key | None:
        """The level."""
        return (self.level(waiter),)

    def hold(self, runner: Facts) -> Key | None:
        """The level."""
        return (self.level(runner),)

    def patience_seconds(self, waiter: Facts) -> float:
        """One that was stopped itself waits a while before others are stopped for it; so does a small new one."""
        return patience_seconds(waiter, self._patience_seconds)

    def changes_in(self, runner: Facts) -> float | None:
        """When it sinks."""
        level = self.level(runner)
        if level == len(self._floors):
            return None
        return (self._floors[level] - runner.service_gpu_seconds) / runner.gpus

    def tells(self, facts: Facts) -> str:
        """Its level, and what it has had."""
        return f"level {self.level(facts)}, has had {facts.service_gpu_seconds / 3600:.1f} device-hours"
