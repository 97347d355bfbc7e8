"""What a kind of job is."""

from __future__ import annotations

from typing import Protocol

from stoker.core.job import Attempt, Job
from stoker.core.launch import Launch, Surroundings


class Kind(Protocol):
    """A kind of job."""

    def launch(self, job: Job, attempt: Attempt, surroundings: Surroundings) -> Launch:
        """What to run for this attempt."""
        ...
