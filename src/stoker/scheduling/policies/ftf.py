"""Finish-time fairness: everybody ends no later than on a cluster that is equally shared. Source of the aim: Themis (NSDI'20).

It goes by run times that are expected from history: where these are poor, so is it.
"""

from __future__ import annotations

from stoker.scheduling.base import Facts, Key, Shift

UNKNOWN_SECONDS = 3600.0
"""What is assumed of a job of which nothing is known."""

MARGIN_SECONDS = 600.0
"""Whose laxity is less by so much may have the place of another."""

LOOK_SECONDS = 120.0


class FinishTimeFairness:
    """Least laxity first: how long a job could still wait and yet end within `stretch` times its run time.

    Nor after the site could be done with all there is: or else the longest would run alone in the end, with the rest idle.
    """

    shifts = Shift.ANYHOW

    def __init__(self, stretch: float = 3.0) -> None:
        self._stretch = stretch

    def key(self, facts: Facts) -> Key:
        """The laxity in seconds, as it would stand at one moment for all."""
        return (self._laxity_seconds(facts) + facts.now,)

    def claim(self, waiter: Facts) -> Key | None:
        """The laxity, and the margin."""
        return (self._laxity_seconds(waiter) + MARGIN_SECONDS,)

    def hold(self, runner: Facts) -> Key | None:
        """The laxity: it stays as it is while a job runs."""
        return (self._laxity_seconds(runner),)

    def patience_seconds(self, waiter: Facts) -> float:
        """None is asked: the laxity says how urgent it is."""
        return 0.0

    def changes_in(self, runner: Facts) -> float | None:
        """Who waits grows more urgent all the time."""
        return LOOK_SECONDS

    def tells(self, facts: Facts) -> str:
        """Its laxity."""
        return f"could wait {self._laxity_seconds(facts) / 3600:.1f} h more and still end in its share of time"

    def _laxity_seconds(self, facts: Facts) -> float:
        remaining = facts.history.remaining_seconds(facts.job, facts.ran_seconds)
        left = UNKNOWN_SECONDS if remaining is None else remaining
        run = facts.ran_seconds + left
        fair = facts.job.submitted_at + self._stretch * run - facts.now
        return min(fair, facts.history.backlog_seconds(facts.now)) - left
