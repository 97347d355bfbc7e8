"""Run times as an oracle tells them, for comparison only: what a scheduler could do that knew what none can know.

A live scheduler learns run times from jobs that have ended. This History is told by the engine that runs the trace, and the
scheduler asks it as it would ask any other. Every result that it had a part in says "run times: known".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from stoker.core.job import Job
from stoker.scheduling.history import History, Numbers


class KnownRunTimes(History):
    """A History that knows how long every job will still run."""

    def __init__(self, left_seconds: Callable[[str], float]) -> None:
        super().__init__()
        self._left_seconds = left_seconds

    def add(self, job: Job, ran_seconds: float) -> None:
        """There is nothing to learn."""

    def runs(self, job: Job) -> Sequence[float]:
        """The one run time that it has: what it had and what is left."""
        return (job.held_seconds + self._left_seconds(job.id),)

    def remaining_seconds(self, job: Job, ran_seconds: float, quantile: float = 0.5) -> float | None:
        """What is left, the restart included."""
        return self._left_seconds(job.id)

    def remaining_seconds_of(self, jobs: Sequence[Job], ran_seconds: Numbers, quantile: float) -> Numbers | None:
        """What is left of each."""
        return np.array([self._left_seconds(job.id) for job in jobs])

    def outlives_in(self, job: Job, ran_seconds: float) -> float | None:
        """Never: what is left only grows less."""
        return math.inf
