"""First come, first served."""

from __future__ import annotations

from stoker.scheduling.base import Facts, Key, Shift


class Fifo:
    """By the time of submission alone."""

    shifts = Shift.NEVER

    def key(self, facts: Facts) -> Key:
        """All alike: the time of submission decides, then the id."""
        return ()

    def claim(self, waiter: Facts) -> Key | None:
        """None: nobody is stopped for anybody."""
        return None

    def hold(self, runner: Facts) -> Key | None:
        """None: it runs to its end."""
        return None

    def patience_seconds(self, waiter: Facts) -> float:
        """None is asked."""
        return 0.0

    def changes_in(self, runner: Facts) -> float | None:
        """Never."""
        return None

    def tells(self, facts: Facts) -> str:
        """Nothing but the time of submission counts."""
        return ""
