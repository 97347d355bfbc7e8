"""First come, first served."""

from __future__ import annotations

from stoker.scheduling.base import Facts, Key


class Fifo:
    """By the time of submission alone."""

    def key(self, facts: Facts) -> Key:
        """All alike: the time of submission decides, then the id."""
        return ()

    def preempts(self, waiter: Facts, runner: Facts) -> bool:
        """Never."""
        return False

    def changes_in(self, runner: Facts) -> float | None:
        """Never."""
        return None

    def tells(self, facts: Facts) -> str:
        """Nothing but the time of submission counts."""
        return ""
