"""What a policy and a placer are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from stoker.core.job import Attempt, Job, Placement
from stoker.core.spec import JobSpec, Machine

from .free import Free, Indices
from .history import History

Key = tuple[float, ...]
Choice = int | tuple[int, tuple[int, ...]]
"""A node; or a node, and which of its devices."""

Chooser = Callable[[Machine, str, Indices, Free], Choice]
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


class Shift(Enum):
    """How the key of a job that waits changes while it waits."""

    NEVER = auto()
    UPWARD = auto()
    """By time alone it only grows, so that one worked out earlier is a lower bound. Otherwise it changes with what
    `Hazards.before_change` tells."""
    ANYHOW = auto()


class Policy(Protocol):
    """Who of one queue comes first, and who may take the place of whom.

    One that waits takes the place of one that runs if its `claim` is less than the `hold` of that one.
    """

    shifts: Shift  # by time or by what others do: then keys are worked out anew

    def key(self, facts: Facts) -> Key:
        """Smaller goes first. Equal keys: who was submitted earlier, then by id."""
        ...

    def claim(self, waiter: Facts) -> Key | None:
        """What one that waits sets against those that run. None: nothing."""
        ...

    def hold(self, runner: Facts) -> Key | None:
        """What one that runs sets against those that wait. None: nobody has its place."""
        ...

    def patience_seconds(self, waiter: Facts) -> float:
        """How long it has to have waited before anybody is stopped for it."""
        ...

    def changes_in(self, runner: Facts) -> float | None:
        """In how many seconds the hold of one that runs will be another. None: never by time alone."""
        ...

    def tells(self, facts: Facts) -> str:
        """What its key comes from, in words; empty, where only the time of submission counts."""
        ...


class Placer(Protocol):
    """Where a gang goes."""

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, taken out of `free`; or None, with `free` as it was. Never a part.

        It is asked about the same job any number of times, also to see what would be: it learns nothing from that.
        """
        ...

    def learns(self, spec: JobSpec) -> None:
        """A job is there. Told once of each, so that a placer may learn what jobs are like; most do not."""
        ...
