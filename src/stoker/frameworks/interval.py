"""How often to save: what is lost when a job is interrupted, against what saving costs. Pure.

Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval, Future Generation Computer Systems 22 (2006) 303,
first order: sqrt(2 C M) - C, for saves of C seconds and M seconds between interruptions.
"""

from __future__ import annotations

import math

MOST_SECONDS = 1800.0
"""Nobody likes to lose more than half an hour."""

LEAST_SHARE = 10.0
"""Saving takes no more than a tenth of the time, whatever is lost."""

FIRST_SECONDS = 60.0
"""Until the first save has told what one costs."""

MEAN_SECONDS = 8 * 3600.0
"""Between two interruptions in a shared pool, where nobody knows better."""


def seconds_until_save(save_seconds: float, mean_seconds: float = MEAN_SECONDS) -> float:
    """From the end of a save that took so long to the next one; before the first save (0), a minute."""
    if save_seconds <= 0:
        return FIRST_SECONDS
    best = math.sqrt(2 * save_seconds * mean_seconds) - save_seconds
    return max(LEAST_SHARE * save_seconds, min(best, MOST_SECONDS))
