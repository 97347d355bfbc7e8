"""What a policy and a placer are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stoker.core.job import Attempt, Job, Placement
from stoker.core.spec import JobSpec, Machine

from .free import Free, Indices
from .history import History

Key = tuple[float, ...]
Chooser = Callable[[Machine, str, Indices, Free], int]
"""Which of the fitting nodes one replica of a gang goes to."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a policy may know of a job: never how long it will run."""

    job: Job
    attempt: Attempt | None  # None: it waits
    now: float
    history: History

    @property
    def gpus(self) -> float:
        """Devices of the gang; a gang without any counts as one, and a share as its part."""
        return (self.job.spec.accelerator_milli or 1000) / 1000

    @property
    def ran_seconds(self) -> float:
        """How long it has held its machines, all attempts together."""
        held = self.job.held_seconds
        return held if self.attempt is None else held + self.now - self.attempt.placed_at

    @property
    def service_gpu_seconds(self) -> float:
        """Device-seconds that it has had."""
        return self.gpus * self.ran_seconds


class Policy(Protocol):
    """Who of one queue comes first, and who may take the place of whom."""

    def key(self, facts: Facts) -> Key:
        """Smaller goes first. Equal keys: who was submitted earlier, then by id. It stays as it is while a job waits."""
        ...

    def preempts(self, waiter: Facts, runner: Facts) -> bool:
        """Whether the one that waits should have the place of the one that runs."""
        ...

    def changes_in(self, runner: Facts) -> float | None:
        """In how many seconds `preempts` may answer otherwise about this one that runs. None: never by time alone."""
        ...

    def tells(self, facts: Facts) -> str:
        """What its key comes from, in words; empty, where only the time of submission counts."""
        ...


class Placer(Protocol):
    """Where a gang goes."""

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, taken out of `free`; or None, with `free` as it was. Never a part."""
        ...
