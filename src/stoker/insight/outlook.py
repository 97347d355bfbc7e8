"""What may be said of a job's future: values, and what the doors ask for. simulate/forecast.py finds them out.

Moments are seconds since the epoch. Nothing here is a promise: it rests on how long jobs have run here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stoker.core.job import Job, Placement, Reason
from stoker.core.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where a figure likely lies: one in ten is below `low`, half below `middle`, nine in ten below `high`.

    None: beyond what was looked at. With `high` alone nothing is known but that bound.
    """

    low: float | None
    middle: float | None
    high: float | None

    def later(self, seconds: float) -> Interval:
        """The same, so much later."""
        low, middle, high = (None if at is None else at + seconds for at in (self.low, self.middle, self.high))
        return Interval(low=low, middle=middle, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How long a job will likely hold its machines in all, in seconds, and from what that is known."""

    seconds: Interval
    known_runs: int  # of jobs like it; 0: none, so its limit is the upper end
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When a waiting job will likely get its machines."""

    at: Interval
    draws: int  # how often the future was played; 0: it is not known, whatever was played
    not_started: int  # in so many of them it had not started at `played_until`
    played_until: float  # the moment up to which every draw was played that had not started it
    basis: str
    waits_for: str = ""  # the job whose end most often let it in; empty: nobody's in particular
    placements: tuple[Placement, ...] = ()  # where it went in the draw nearest the middle

    def is_by(self, moment: float) -> bool:
        """Whether it likely starts by then."""
        return self.at.middle is not None and self.at.middle <= moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A running job that holds what another could use."""

    job: str
    accelerators: float
    since: float
    ends: Interval
    basis: str

    @property
    def is_known(self) -> bool:
        """Whether jobs like it have run here; else its end is bounded by its limit alone."""
        return self.ends.middle is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """What a queue holds of a resource that it has a quota of. Amounts: devices or vCPUs."""

    queue: str
    resource: str
    held: float
    own: float
    asked: float  # by the job that waits


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Another way to ask, and when the job would start then."""

    change: str  # what is changed: workers, accelerators, accelerator_type, preemptible, priority
    asked: str
    instead: str
    text: str
    start: Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """All that is known of the future of one job, from one state of the site."""

    at: float
    position: int  # of the story: what is written after it is not in here
    reason: Reason | None = None  # why it waits now; None: it does not, or gets its machines at once
    ahead: tuple[str, ...] = ()  # who is before it in the queue, next first
    start: Start | None = None
    runs: Runs | None = None
    ends: Interval | None = None  # of a running job
    holders: tuple[Holder, ...] = ()
    quota: QuotaUse | None = None
    what_if: tuple[WhatIf, ...] = ()


class Outlooks(Protocol):
    """Tells outlooks. Safe to call from any thread."""

    def of(self, job: str) -> Outlook | None:
        """The outlook of a job that lives. None: it does not, or too many ask at the moment."""
        ...

    def of_new(self, job: Job, nodes: tuple[Node, ...] = ()) -> Outlook | None:
        """The outlook of a job if it were submitted now, with nodes that would come with it. None: too many ask."""
        ...
