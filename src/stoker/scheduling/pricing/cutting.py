"""What the rest of a device is worth when devices are cut into shares of the sizes that are asked for.

Cut so many pieces of each size from as few devices as can be: a linear program over the patterns that fit one device
(Gilmore and Gomory). Each size has a price in its solution, a whole device's prices sum up to at most one device, and the
rest of a device is worth the most prices that fit into it. So 460 and 540 belong together where both are asked for, and a
rest that no size fits is worth nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.core.spec import WHOLE_DEVICE_MILLI

Numbers = NDArray[np.float64]

GRID_MILLI = 10
"""Sizes are rounded up to it, and rests down."""

MOST_PIVOTS = 200
_PAYS = 1e-7
_CLOSE = 1e-9


def cutting_values(sizes: NDArray[np.int64], weights: Numbers) -> Numbers:
    """What each rest of 0 to 1000 milli is worth, in milli of whole devices, where sizes are asked for so often."""
    units = WHOLE_DEVICE_MILLI // GRID_MILLI
    steps = -(-sizes // GRID_MILLI)
    asked = weights / weights.sum()
    basis = np.diag(units // steps).astype(float)  # a column is a pattern: how often each size
    worth = np.zeros(units + 1)
    for _ in range(MOST_PIVOTS):
        prices = np.linalg.solve(basis.T, np.ones(len(sizes)))
        worth = _fill(steps, prices, units)
        if worth[units] <= 1 + _PAYS:
            break
        pattern = _pattern(steps, prices, worth)
        moves = np.linalg.solve(basis, pattern)
        have = np.maximum(np.linalg.solve(basis, asked), 0.0)
        up = moves > _CLOSE
        basis[:, int(np.where(up, have / np.where(up, moves, 1.0), np.inf).argmin())] = pattern
    found: Numbers = (worth * (WHOLE_DEVICE_MILLI / worth[units]))[np.arange(WHOLE_DEVICE_MILLI + 1) // GRID_MILLI]
    return found


def _fill(steps: NDArray[np.int64], prices: Numbers, units: int) -> Numbers:
    """The most that fits into every rest: of one piece, then of two such rests that are filled, again and again."""
    rests = np.arange(units + 1)
    worth: Numbers = np.where(steps <= rests[:, None], np.maximum(prices, 0.0), 0.0).max(axis=1)
    others = rests[:, None] - rests
    pieces = 1
    while pieces < units:
        both = np.where(others >= 0, worth + worth[others], 0.0)  # below 0 it counts from the end, and is not looked at
        worth = both.max(axis=1)
        pieces *= 2
    return worth


def _pattern(steps: NDArray[np.int64], prices: Numbers, worth: Numbers) -> Numbers:
    """How often each size is in a device of that worth."""
    pattern, room = np.zeros(len(steps)), len(worth) - 1
    while room > 0 and worth[room] > _CLOSE:
        if worth[room - 1] >= worth[room] - _CLOSE:
            room -= 1
            continue
        gains = np.where(steps <= room, worth[np.maximum(room - steps, 0)] + prices, -1.0)
        size = int(gains.argmax())
        pattern[size] += 1
        room -= int(steps[size])
    return pattern
