"""A figure that changes at moments and holds in between, and its mean over stretches of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Steps:
    """Starts at 0, and is given its changes in the order of time."""

    def __init__(self) -> None:
        self._moments: list[float] = []
        self._changes: list[float] = []

    def add(self, at: float, change: float) -> None:
        """From this moment on it is so much more."""
        self._moments.append(at)
        self._changes.append(change)

    def integral(self, at: Numbers) -> Numbers:
        """Figure times seconds, from the first change to each of these moments."""
        if not self._moments:
            return np.zeros_like(at)
        moments, levels = np.array(self._moments), np.cumsum(self._changes)
        areas = np.concatenate([[0.0], np.cumsum(levels[:-1] * np.diff(moments))])
        last = np.searchsorted(moments, at, side="right") - 1
        inside = areas[last] + levels[last] * (at - moments[last])
        return np.where(last >= 0, inside, 0.0)

    def means(self, edges: Numbers) -> Numbers:
        """The mean between each two neighbouring moments, which must rise."""
        return np.diff(self.integral(edges)) / np.diff(edges)
