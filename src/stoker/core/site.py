"""What the admin of a site decides: its queues, who goes first, and what may be taken from whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DEFAULT_QUEUE = "default"


class Backfill(StrEnum):
    """Who may go ahead of a job that waits for room."""

    STRICT = "strict"  # nobody who wants the same kind of machine
    EASY = "easy"  # who will be gone before it could start, or takes nothing of what is kept for it
    SKIP = "skip"  # everybody who fits


class Victims(StrEnum):
    """Whose attempts may be stopped for others."""

    NOBODY = "nobody"
    PREEMPTIBLE = "preemptible"  # jobs that said so
    RESUMABLE = "resumable"  # also those that go on from a checkpoint
    ANY = "any"  # everybody's, those that cannot resume last


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much of one resource a queue may hold. Amounts: thousandths of devices or vCPUs."""

    nominal_milli: int
    borrowing_milli: int | None = None  # on top, while others of the cohort leave it unused; None: no limit
    lending_milli: int | None = None  # of the nominal, how much others may borrow; None: all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, and what it may hold."""

    name: str
    weight: float = 1.0  # of its share beside other queues
    cohort: str = ""  # queues of one cohort lend each other what they leave unused
    quotas: Mapping[str, Quota] = field(default_factory=dict)  # resource, or resource@region → how much
    policy: str = ""  # the order within it; empty: the site's


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """When a running job may be stopped for one that waits."""

    victims: Victims = Victims.RESUMABLE
    quantum_seconds: float = 600.0  # nobody is stopped sooner after its start
    budget: int = 5  # how often one job may be stopped
    cost_seconds: float = 30.0  # of a checkpoint and a restart, until they have been measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Machines that are ordered when a job needs them, and given back when nobody does."""

    name: str
    engine: str = "ray"  # which engine orders them
    machine: str = ""  # a catalog name, or empty for a shape of one's own
    accelerator: str = ""  # a catalog name; empty: none
    accelerators: int = 0  # of each machine
    vcpus: float
    memory_gb: float
    region: str = ""
    zone: str = ""  # empty: wherever the engine finds room
    least: int = 0  # so many are there all the time
    most: int
    spot: bool = False  # it may be taken away at any time: only for jobs that give way
    usd_per_hour: float | None = None  # of one machine; None: nobody knows
    instance: str = ""  # what a cloud other than Google's calls such a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Beyond which a project has no more machines ordered. None: no limit."""

    usd_per_hour: float | None = None  # of all that it holds or has ordered at one time
    usd_per_month: float | None = None  # of a calendar month, in UTC


DEFAULT_BUDGET = "default"
"""The budget of each project that has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """This installation's rules of scheduling."""

    queues: Mapping[str, Queue] = field(default_factory=lambda: {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)})
    policy: str = "priority"
    policy_options: Mapping[str, float] = field(default_factory=dict)
    placer: str = "best-fit"
    share_by: str = "queue"  # who has a share: each `queue`, or each `user` of a queue
    half_life_seconds: float = 0.0  # of past usage in the shares; 0: only what is held now counts
    backfill: Backfill = Backfill.EASY
    head_seconds: float = 14400.0  # after so long at the head, a job is overtaken by nobody
    preemption: Preemption = Preemption()
    defrag: bool = False  # move resumable jobs to make room for gangs
    pools: Mapping[str, Pool] = field(default_factory=dict)
    idle_seconds: float = 600.0  # how long a machine of a pool stays that nobody uses
    patience_seconds: float = 1200.0  # how long ordered machines may take to come, before others are ordered
    budgets: Mapping[str, Budget] = field(default_factory=dict)  # by project

    def budget(self, project: str) -> Budget:
        """How much a project may spend."""
        return self.budgets.get(project) or self.budgets.get(DEFAULT_BUDGET) or Budget()
