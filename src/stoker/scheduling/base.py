"""What a policy and a placer are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stoker.core.job import Job, Placement, Reason
from stoker.core.spec import JobSpec
from stoker.core.world import World

from .free import Free


class Policy(Protocol):
    """Who comes first, and whom somebody's waiting holds back."""

    def order(self, world: World, jobs: Sequence[Job], now: float) -> list[Job]:
        """The queued jobs, first to be placed first. A total order: every tie is broken by a stated rule."""
        ...

    def admits(self, job: Job, waiting: Sequence[Job]) -> Reason | None:
        """Why this job may not be placed now, given who waits before it. None: it may."""
        ...


class Placer(Protocol):
    """Where a gang goes."""

    def place(self, gang: str, spec: JobSpec, free: Free) -> tuple[Placement, ...] | None:
        """Places for the whole gang, taken out of `free`; or None, with `free` as it was. Never a part."""
        ...
