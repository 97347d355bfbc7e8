"""Axes of a plot: which values it spans, where its marks are, and what they are called."""

from __future__ import annotations

import math
from dataclasses import dataclass

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
UNITS = ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (1.0, "seconds"))
SPANS = (
    *((1.0, "1 s"), (10.0, "10 s"), (MINUTE, "1 min"), (10 * MINUTE, "10 min"), (HOUR, "1 h"), (10 * HOUR, "10 h")),
    *((4 * DAY, "4 d"), (40 * DAY, "40 d"), (400 * DAY, "400 d"), (4000 * DAY, "11 y")),
)


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a plot."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]
    label: str
    is_log: bool = False

    def part(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high one."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def of_time(end_seconds: float, since: str = "the trace's zero") -> Axis:
    """From 0 to the end, in the largest unit of which there are three."""
    unit, name = next(((size, name) for size, name in UNITS if end_seconds >= 3 * size), UNITS[-1])
    high = max(end_seconds, 1e-9)
    return Axis(0.0, high, _marks(high / unit, unit), f"time since {since}, {name}")


def of_shares(label: str, most: float = 1.0) -> Axis:
    """From nothing to a share of at least so much."""
    high = next(share for share in (0.02, 0.04, 0.1, 0.2, 0.4, 1.0) if share >= min(most, 1.0))
    return Axis(0.0, high, tuple((n / 4 * high, f"{25 * n * high:g} %") for n in range(5)), label)


def of_counts(most: float, label: str) -> Axis:
    """From 0 to at least so many."""
    high = max(most, 1.0) * 1.05
    return Axis(0.0, high, _marks(high, 1.0), label)


def of_spans(least: float, most: float, label: str) -> Axis:
    """Spans of time, each mark several times the one before; nothing below a second is told apart."""
    low = max((value for value, _ in SPANS if value <= least), default=SPANS[0][0])
    high = min((value for value, _ in SPANS if value >= max(most, 2 * low)), default=max(most, 2 * low))
    return Axis(low, high, tuple((value, text) for value, text in SPANS if low <= value <= high), label, is_log=True)


def _marks(high: float, unit: float) -> tuple[tuple[float, str], ...]:
    """Round values up to a high one, four to eight of them."""
    step = 10.0 ** math.floor(math.log10(high))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if high / s <= 8)
    return tuple((n * step * unit, f"{n * step:,.10g}") for n in range(int(high / step + 1e-9) + 1))
