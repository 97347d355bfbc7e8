"""Priority, which grows with age."""

from __future__ import annotations

from stoker.scheduling.base import Facts, Key, Shift


class Priority:
    """Greater priority (0 to 1000) first; every hour of waiting counts like `points_per_hour` more.

    As all that wait age alike, their order stays: it goes by priority and the time of submission.
    """

    shifts = Shift.NEVER

    def __init__(self, points_per_hour: float = 10.0) -> None:
        self._points_per_second = points_per_hour / 3600

    def key(self, facts: Facts) -> Key:
        """Points, as they would stand at one moment for all."""
        return (facts.job.submitted_at * self._points_per_second - facts.job.spec.priority,)

    def claim(self, waiter: Facts) -> Key | None:
        """Its priority as submitted: age puts nobody off a machine."""
        return (-waiter.job.spec.priority,)

    def hold(self, runner: Facts) -> Key | None:
        """Its priority as submitted."""
        return (-runner.job.spec.priority,)

    def patience_seconds(self, waiter: Facts) -> float:
        """None is asked."""
        return 0.0

    def changes_in(self, runner: Facts) -> float | None:
        """Never."""
        return None

    def tells(self, facts: Facts) -> str:
        """Its priority as submitted."""
        return f"priority {facts.job.spec.priority}"
