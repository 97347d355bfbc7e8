"""A job, its attempts, and their replicas: rows that change by a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .spec import JobSpec
from .states import AttemptState, Cause, JobState, ReplicaState, Standing, Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why something waits, in a code, a sentence, and what would help."""

    code: str
    text: str
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Machines that were ordered for a job, which starts when they are up."""

    machines: tuple[tuple[str, int], ...]  # pool → how many are still to come of it
    zone: str  # where its accelerators are to be; empty: it needs none, or it does not matter
    at: float
    came_at: float  # when the last of them came; until one has, when they were ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user sent, kept as it came: the dialect and the body (JSON text)."""

    dialect: str
    body: str = field(repr=False)  # may hold secrets


RESUMABLE = "stoker-resumable"
"""A label, `true` or `false`: whether a job goes on from its checkpoint. It may change while the job is there."""

PROBE = "stoker-probe"
"""A label: the job is of a probe, by which it is known how its program trains on so little hardware (scaling efficiency)."""


KEEP = "stoker-keep-until"
"""A label: until then (seconds since the epoch) a job may keep its GPUs, idle or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A submitted job."""

    id: str
    spec: JobSpec
    request: Request
    owner: str
    submitted_at: float
    labels: Mapping[str, str] = field(default_factory=dict)
    wish: Wish = Wish.RUN
    wish_why: str = ""
    state: JobState = JobState.QUEUED
    tries: int = 0  # attempts so far
    released: int = 0  # the last attempt whose kept places the user needs no more
    failures: int = 0  # attempts that count against spec.retry.whole_job
    preemptions: int = 0  # attempts that were stopped for others
    requeued_at: float = 0.0  # when it last came back to the queue; 0: never
    not_before: float = 0.0
    avoid: tuple[str, ...] = ()  # nodes that were to blame for what failed: it goes elsewhere if it can
    signs: tuple[tuple[str, str], ...] = ()  # sign and node of every failure that bore a sign
    ends: tuple[str, ...] = ()  # of every attempt that failed and was tried again: how it ended, and where
    restarts: int = 0  # in place, in those attempts
    started_at: float | None = None  # the first RUNNING
    ended_at: float | None = None
    held_seconds: float = 0.0  # how long its ended attempts have held their machines, all together
    credited_seconds: float = 0.0  # of these, so many were lost by the site's fault
    message: str = ""  # why it ended, when it did not succeed
    waits: Reason | None = None
    ordered: Ordered | None = None
    revision: int = 1  # grows with every change a user can see; the etag is made of it

    @property
    def is_resumable(self) -> bool:
        """Whether it goes on from its checkpoint: as its label says by now, or else as it was submitted."""
        said = self.labels.get(RESUMABLE)
        return said == "true" if said in ("true", "false") else self.spec.resumable

    @property
    def queued_since(self) -> float:
        """Since when it has been waiting for a place, or had been when it got one."""
        return max(self.submitted_at, self.requeued_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one replica goes: a node, and devices of it that are its own."""

    role: str
    index: int
    node: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One process of the gang, as last seen."""

    role: str
    index: int
    seen: ReplicaState = ReplicaState.NOTHING
    exit_code: int | None = None
    addresses: tuple[str, ...] = ()  # host:port of the cluster, then torch's, then JAX's
    message: str = ""
    out_of_memory: bool = False
    at: float = 0.0  # when `seen` was last set
    restarts: int = 0  # in place, by its supervisor
    sign: str = ""  # the signature that its output bears; empty: none is known
    evidence: str = ""  # the line that bears it
    place: str = ""  # the last line that it printed, where it failed, without what differs from run to run
    alike: int = 0  # so many of its ends in this attempt, the last ones, were alike
    standing: Standing = Standing.GOING  # while it is UP, and what it was last
    standing_at: float = 0.0  # when that was last set
    restarted_at: float = 0.0  # the last of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of the whole gang, with the devices it holds until it has ENDED."""

    id: str
    job: str
    number: int
    engine: str
    placements: tuple[Placement, ...]
    placed_at: float
    replicas: tuple[Replica, ...]
    lease_seconds: float = (
        0.0  # its replicas end themselves when they could not renew for so long; 0: they have no lease
    )
    state: AttemptState = AttemptState.PLACED
    usd_per_hour: float | None = None  # what the machines cost that it holds; None: nobody knows
    ordered_usd_per_hour: float = 0.0  # of that, what is paid for machines that were ordered
    asked: Cause | None = None  # the scheduler's wish: PREEMPTED, DRAINED
    cause: Cause | None = None
    detail: str = ""
    started_at: float | None = None
    stopping_at: float | None = None
    ended_at: float | None = None
