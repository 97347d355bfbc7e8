"""The last minutes of machines and GPUs: as the server tells them at first, then carried on by every look."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

POINTS = 60
SECONDS = 5.0
"""A point is the mean of so many seconds; the server's are of the same length."""

_LONGEST_GAP = POINTS


class Recent:
    """By source: the node's name, or the uuid of a GPU."""

    def __init__(self) -> None:
        self._means: dict[str, deque[float | None]] = {}
        self._open: dict[str, tuple[int, float, int]] = {}  # which point, the sum, of how many

    def take(self, overview: Any) -> None:
        """Add what a look has shown, and forget what is gone."""
        at = overview["at"]
        found = {
            **{row["name"]: (row["values"].get("cpu_percent"), row["recent"]) for row in overview["nodes"]},
            **{row["uuid"]: (row["values"].get("utilization_percent"), row["recent"]) for row in overview["gpus"]},
        }
        for gone in self._means.keys() - found.keys():
            del self._means[gone]
            self._open.pop(gone, None)
        for source, (value, recent) in found.items():
            self._add(source, at, value, recent)

    def of(self, source: str) -> Sequence[float | None]:
        """The means, the oldest first."""
        return tuple(self._means.get(source, ()))

    def _add(self, source: str, at: float, value: float | None, recent: Sequence[float | None]) -> None:
        means = self._means.get(source)
        if means is None:
            while recent and recent[-1] is None:
                recent = recent[:-1]
            means = self._means[source] = deque(recent, maxlen=POINTS)
        point = int(at // SECONDS)
        last, total, count = self._open.get(source, (point - 1, 0.0, 0))
        if point != last:
            gap = min(_LONGEST_GAP, max(0, point - last - 1))
            means.extend([None] * gap)
            means.append(None)
            total, count = 0.0, 0
        if value is not None:
            total, count = total + value, count + 1
            means[-1] = total / count
        self._open[source] = point, total, count
