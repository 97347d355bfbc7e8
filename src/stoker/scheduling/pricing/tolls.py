"""How crowded each kind of node will be by those that can go nowhere else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

ROUNDS = 300


def even_loads(asked: Numbers, accepts: NDArray[np.bool_], capacity: Numbers) -> Numbers:
    """The load of each kind when every group spreads over the kinds it accepts so that the fullest is as empty as can be.

    `asked`: by group. `accepts`: groups (rows) by kinds (columns). Load 1 is a kind that is asked for just all it has. Each
    round moves every group a little towards the kinds that are emptier than the mean.
    """
    room = np.maximum(capacity, 1e-9)
    parts = _shares(accepts.astype(float) * room)
    for number in range(ROUNDS):
        loads = asked @ parts / room
        pull = np.clip((loads.mean() - loads) * min(2.0, 100.0 / (number + 10)), -20.0, 20.0)
        parts = _shares(parts * np.exp(pull) + 1e-12 * accepts)
    found: Numbers = asked @ parts / room
    return found


def _shares(parts: Numbers) -> Numbers:
    found: Numbers = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)
    return found
