"""Least attained service first (2D-LAS): no estimates. Source: Tiresias (NSDI'19)."""

from __future__ import annotations

from bisect import bisect_right

from stoker.scheduling.base import Facts, Key


class Las:
    """Levels of attained device-hours: a lower level first, within a level who was submitted earlier.

    A job sinks to the next level as it runs, and who waits on a lower level may have its place.
    """

    def __init__(self, first_gpu_hours: float = 1.0, factor: float = 4.0, levels: int = 6) -> None:
        self._floors = [first_gpu_hours * 3600 * factor**n for n in range(int(levels) - 1)]

    def level(self, facts: Facts) -> int:
        """How far it has sunk."""
        return bisect_right(self._floors, facts.service_gpu_seconds)

    def key(self, facts: Facts) -> Key:
        """The level."""
        return (self.level(facts),)

    def preempts(self, waiter: Facts, runner: Facts) -> bool:
        """If it is on a lower level."""
        return self.level(waiter) < self.level(runner)

    def changes_in(self, runner: Facts) -> float | None:
        """When it sinks."""
        level = self.level(runner)
        if level == len(self._floors):
            return None
        return (self._floors[level] - runner.service_gpu_seconds) / runner.gpus

    def tells(self, facts: Facts) -> str:
        """Its level, and what it has had."""
        return f"level {self.level(facts)}, has had {facts.service_gpu_seconds / 3600:.1f} device-hours"
