"""The least expected service per success first, learned from what jobs have had so far: no estimates, no oracle.

Gittins (1979); its use for jobs of unknown length: Gittins-2D of Tiresias (NSDI'19). What is our own: hazards are learned
while jobs run, and a job's nearest neighbours of the same user and size weigh most, for sweeps run alike.
"""

from __future__ import annotations

from stoker.scheduling.base import Facts, Key, Shift
from stoker.scheduling.patience import patience_seconds

LONGEST_GPU_SECONDS = 7e6
"""Jobs that are expected to need more go by the time of submission: among giants, order saves nobody anything."""

RATIO = 1.3
RESTART_PRICE = 0.5
"""Who has been stopped n times yields its place only to one that needs 1.3 × (1 + 0.5 n) times less."""


STOPPED_SECONDS = 110.0
"""Who has been stopped waits so long before others are stopped for it: the price of a restart keeps it from going round.

From 60 to 120 s the p99 wait on Philly grows from 599 to 701 s; at 60 and 90 s one of Muri's traces that begin at 0 ends 7 to 8 %
after its bound, at 110 and 120 s at most 4 %.
"""


class Gittins:
    """By the Gittins index of attained service, times devices."""

    shifts = Shift.UPWARD

    def __init__(self, patience: float = STOPPED_SECONDS) -> None:
        self._patience_seconds = patience

    def key(self, facts: Facts) -> Key:
        """Expected device-seconds per success."""
        return (_index(facts),)

    def claim(self, waiter: Facts) -> Key | None:
        """The same."""
        return (_index(waiter),)

    def hold(self, runner: Facts) -> Key | None:
        """The same, less the price of being stopped once more."""
        return (_index(runner) / (RATIO * (1 + RESTART_PRICE * runner.job.preemptions)),)

    def patience_seconds(self, waiter: Facts) -> float:
        """One that was stopped itself waits a while before others are stopped for it; so does a small new one."""
        return patience_seconds(waiter, self._patience_seconds)

    def changes_in(self, runner: Facts) -> float | None:
        """When it has outlived its span."""
        return runner.history.hazards.span_ends_in(runner.ran_seconds)

    def tells(self, facts: Facts) -> str:
        """What it is expected to need, and what it has had."""
        need, had = _index(facts) / 3600, facts.service_gpu_seconds / 3600
        return f"may need {need:.1f} device-hours more, has had {had:.1f}"


def _index(facts: Facts) -> float:
    return min(LONGEST_GPU_SECONDS, facts.gpus * facts.history.hazards.index(facts.job, facts.ran_seconds, facts.now))
