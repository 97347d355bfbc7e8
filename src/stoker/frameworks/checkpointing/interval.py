"""How often to save: what is lost when a job is interrupted, against what saving costs.

Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval, Future Generation Computer Systems 22 (2006) 303,
first order: sqrt(2 C M) - C, for saves of C seconds and M seconds between interruptions.
"""

from __future__ import annotations

import math
import time
from typing import Callable, Mapping

MOST_SECONDS = 1800.0
"""Nobody likes to lose more than half an hour."""

LEAST_SHARE = 10.0
"""Saving takes no more than a tenth of the time, whatever is lost."""

LEAST_SHARE_BESIDE = 5.0
"""Nor does writing and sending what was saved, beside the training, go on for more than a fifth of the time."""

FIRST_SECONDS = 60.0
"""Until the first save has told what one costs."""

MEAN_SECONDS = 8 * 3600.0
"""Between two interruptions in a shared pool, where nobody knows better."""


def mean_seconds(trained_seconds: float, interruptions: int) -> float:
    """Between two interruptions, as far as this job has seen: what is taken to be usual counts as one more."""
    return (MEAN_SECONDS + max(0.0, trained_seconds)) / (1 + max(0, interruptions))


def seconds_until_save(save_seconds: float, mean_seconds: float = MEAN_SECONDS) -> float:
    """From the end of a save that took so long to the next one; before the first save (0), a minute."""
    if save_seconds <= 0:
        return FIRST_SECONDS
    best = math.sqrt(2 * save_seconds * mean_seconds) - save_seconds
    return max(LEAST_SHARE * save_seconds, min(best, MOST_SECONDS))


def _seconds(text: str) -> float:
    """A number of seconds; 0 for `auto`, and for whatever else somebody has set."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


class Rhythm:
    """When one program saves next."""

    def __init__(self, variables: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        """By what its job says (`--checkpoints`), and how often it was started again."""
        every, restarts = variables.get("STOKER_CHECKPOINTS", ""), variables.get("STOKER_RESTART_COUNT", "")
        self._every_seconds = _seconds(every)
        self._interruptions = int(restarts) if restarts.isdigit() else 0
        self._clock = clock
        self._began_at = clock()
        self._due_at = self._began_at + (self._every_seconds or FIRST_SECONDS)

    @property
    def is_due(self) -> bool:
        """Whether it is time to save."""
        return self._clock() >= self._due_at

    @property
    def trained_seconds(self) -> float:
        """How long it has trained, in all attempts."""
        return self._clock() - self._began_at

    def goes_on(self, trained_seconds: float) -> None:
        """It has trained so long before."""
        self._began_at -= trained_seconds

    def saved(self, stall_seconds: float) -> None:
        """Training stood still so long for a save."""
        mean = mean_seconds(self.trained_seconds, self._interruptions)
        self._due_at = self._clock() + (self._every_seconds or seconds_until_save(stall_seconds, mean))

    def written(self, whole_seconds: float) -> None:
        """What was saved last counts now, so long after that began."""
        if not self._every_seconds:
            rest = (LEAST_SHARE_BESIDE - 1) * whole_seconds
            self._due_at = max(self._due_at, self._clock() + rest)

    def hurry(self) -> None:
        """It is time now, whatever was said."""
        self._due_at = self._clock()
