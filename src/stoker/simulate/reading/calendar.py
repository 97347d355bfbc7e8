"""Dates and times of day as seconds, and back."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from stoker.simulate.reading.problems import LeftOut, Wrong

FIRST_YEAR, LAST_YEAR = 1970, 2200


class Calendar:
    """The clock of a file: moments with or without a zone, but all alike.

    A wall clock without a zone is taken as if it never changed; where clocks are set back, an hour comes twice.
    """

    def __init__(self) -> None:
        self._zone: tzinfo | None = None
        self._seen = False

    def seconds(self, column: str, text: str) -> float:
        """A moment as seconds since 1970, of which only differences mean something."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise Wrong(f"{column} is {text[:40]!r}, not a date and time such as 2017-10-02 08:00:00") from None
        if self._seen and (self._zone is None) != (moment.tzinfo is None):
            raise Wrong(f"{column} is {text!r}: some times of this file have a zone and some have none")
        self._seen, self._zone = True, moment.tzinfo
        if not FIRST_YEAR < moment.year < LAST_YEAR:
            raise Wrong(f"{column} is {text!r}, out of range")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def ran(self, start: str, end: str) -> float:
        """From `start_time` to `end_time`; a job without one of them, or without any time between, is left out."""
        if not start or not end:
            raise LeftOut("has no end" if start else "never started")
        seconds = self.seconds("end_time", end) - self.seconds("start_time", start)
        if seconds < 0:
            raise Wrong(f"end_time is {end}, before start_time {start}")
        if seconds == 0:
            raise LeftOut("ran for 0 s")
        return seconds

    def text(self, seconds: float) -> str:
        """Seconds since 1970 as the file would write the moment."""
        moment = datetime.fromtimestamp(seconds, self._zone or UTC)
        return moment.replace(tzinfo=self._zone).isoformat(sep=" ")
