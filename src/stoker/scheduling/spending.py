"""What projects have spent this month on machines that were ordered for them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from stoker.core.ids import split_job_id
from stoker.core.job import Attempt
from stoker.core.world import World

HOUR_SECONDS = 3600.0


class Spending:
    """US dollars by project, of the calendar month in UTC that a moment lies in."""

    def __init__(self) -> None:
        self._month = 0.0  # when it began
        self._ended: dict[str, float] = {}

    def add(self, attempt: Attempt, ended_at: float) -> None:
        """An attempt has given its machines back."""
        self._turn_to(ended_at)
        self._add(attempt, ended_at)

    def add_all(self, attempts: Iterable[Attempt], now: float) -> None:
        """Attempts that have ended before now."""
        self._turn_to(now)
        for attempt in attempts:
            if attempt.ended_at is not None:
                self._add(attempt, attempt.ended_at)

    def of(self, project: str, world: World, now: float) -> float:
        """What a project has spent up to now, with what its live attempts cost so far."""
        self._turn_to(now)
        live = (a for a in world.attempts.values() if a.ordered_usd_per_hour and split_job_id(a.job)[0] == project)
        return self._ended.get(project, 0.0) + sum(self._cost(attempt, now) for attempt in live)

    def _add(self, attempt: Attempt, ended_at: float) -> None:
        if attempt.ordered_usd_per_hour:
            project = split_job_id(attempt.job)[0]
            self._ended[project] = self._ended.get(project, 0.0) + self._cost(attempt, ended_at)

    def _cost(self, attempt: Attempt, until: float) -> float:
        hours = max(0.0, until - max(attempt.placed_at, self._month)) / HOUR_SECONDS
        return hours * attempt.ordered_usd_per_hour

    def _turn_to(self, now: float) -> None:
        began = month_start(now)
        if began > self._month:
            self._month = began
            self._ended.clear()


def month_start(now: float) -> float:
    """When the month began, in UTC, in seconds since the epoch."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def next_month(now: float) -> float:
    """When the next month begins, in UTC, in seconds since the epoch."""
    return month_start(month_start(now) + 32 * 86400.0)
