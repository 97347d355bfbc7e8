"""Shortest remaining service first, by estimates from history (QSSF)."""

from __future__ import annotations

from stoker.scheduling.base import Facts, Key, Shift
from stoker.scheduling.patience import STOPPED_SECONDS, patience_seconds

UNKNOWN_SECONDS = 3600.0
"""What is assumed of a job of which nothing is known, before anything has ended."""


class Srsf:
    """The least expected remaining device-seconds first. A running one is put off for `gain` times less."""

    shifts = Shift.ANYHOW

    def __init__(self, gain: float = 4.0, patience: float = STOPPED_SECONDS) -> None:
        self._patience_seconds = patience
        self._gain = gain

    def key(self, facts: Facts) -> Key:
        """Expected remaining device-seconds, as known when it was queued."""
        return (_remaining_service(facts),)

    def claim(self, waiter: Facts) -> Key | None:
        """What it needs, so many times over."""
        return (_remaining_service(waiter) * self._gain,)

    def hold(self, runner: Facts) -> Key | None:
        """What it needs still."""
        return (_remaining_service(runner),)

    def patience_seconds(self, waiter: Facts) -> float:
        """As long as under the other policies that stop anybody."""
        return patience_seconds(waiter, self._patience_seconds)

    def changes_in(self, runner: Facts) -> float | None:
        """Its expectation shifts while it runs: looked at again after it has run half as long again."""
        return max(60.0, 0.5 * runner.ran_seconds)

    def tells(self, facts: Facts) -> str:
        """What it is expected to need."""
        return f"needs about {_remaining_service(facts) / 3600:.1f} device-hours more"


def _remaining_service(facts: Facts) -> float:
    seconds = facts.history.remaining_seconds(facts.job, facts.ran_seconds)
    return facts.gpus * (UNKNOWN_SECONDS if seconds is None else seconds)
