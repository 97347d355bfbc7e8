"""A series of numbers as a line of small bars."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import pairwise

_BARS, _PLAIN = "▁▂▃▄▅▆▇█", "_.-=+*#@"
_GAP, _BROKEN = " ", "×"


def sparkline(
    numbers: Sequence[float | None], width: int, *, from_zero: bool = False, most: float | None = None
) -> str:
    """So many characters at the most. A None leaves a gap, what is not a number is crossed out.

    `from_zero`: a low bar is near nothing, not near the lowest number. `most`: what a full bar is, such as 100 percent.
    """
    cells = [_mean(part) for part in _parts(numbers, width)]
    finite = [cell for cell in cells if cell is not None and math.isfinite(cell)]
    low = 0.0 if from_zero else min(finite, default=0.0)
    high = max(finite, default=0.0) if most is None else most
    half = high / 2 - low / 2  # of what lies between, which may be more than a number can be
    bars = _bars()
    return "".join(_bar(cell, low, half, bars) for cell in cells)


def _bar(cell: float | None, low: float, half: float, bars: str) -> str:
    if cell is None:
        return _GAP
    if not math.isfinite(cell):
        return _BROKEN if bars is _BARS else "x"
    if half <= 0:
        return bars[len(bars) // 2]
    height = max(0.0, min(1.0, (cell / 2 - low / 2) / half))  # below zero a number may be lower than low, by any amount
    return bars[min(len(bars) - 1, int(height * len(bars)))]


def _parts(numbers: Sequence[float | None], width: int) -> list[Sequence[float | None]]:
    """As many as there are numbers, or as fit: one character for each."""
    count = min(len(numbers), width)
    edges = [round(n * len(numbers) / count) for n in range(count + 1)] if count else []
    return [numbers[low:high] for low, high in pairwise(edges)]


def _mean(part: Sequence[float | None]) -> float | None:
    known = [number for number in part if number is not None]
    return sum(known) / len(known) if known else None


def _bars() -> str:
    """The bars that the terminal's letters have."""
    try:
        stream = (
            sys.stdout if hasattr(sys.stdout, "encoding") else sys.__stderr__
        )  # Textual takes stdout, and writes there
        _BARS.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _BARS
