"""Everything that can happen, as frozen values. They are compared in tests, committed by the store, and kept as the story.

Who may make which: commands make Submit, Cancel, Release, Relabel and Forget (the user's wish), CordonNode and UncordonNode (the
admin's); observe makes Note, NodeSeen and NodeGone (what is seen); settle makes MoveAttempt, MoveJob, NodeFailed and the
CordonNode that follows from faults, decide Open, Ask, Explain, OrderMachines, and the moves that go with an Ask. Credit
follows from ledgers (insight/ledgers.py). Nobody else makes any. Of a pool of which ordered machines do not come NodeFailed is
made by observe, and by decide if that takes too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .ids import job_of_attempt
from .job import Attempt, Job, Ordered, Reason
from .node import Cordon, Node
from .states import AttemptState, Cause, JobState, ReplicaState, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A new job, QUEUED."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The user wants the job to stop. Of no effect on a job that has ended."""

    job: str
    why: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The user needs the places no more that are kept after a failure."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabel:
    """The user replaces the job's labels; guarded by the revision that the user has read, if one is given."""

    job: str
    labels: Mapping[str, str]
    if_revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The user wants to hear no more of a job that has ended. Its id stays taken."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A replica was seen."""

    attempt: str
    role: str
    index: int
    seen: ReplicaState
    at: float
    exit_code: int | None = None
    addresses: tuple[str, ...] = ()
    message: str = ""
    out_of_memory: bool = False
    restarts: int = 0  # how often its supervisor has started it again in place
    sign: str = ""  # the signature that its output bears, by which the cause is known; empty: none
    evidence: str = ""  # the line of output that bears it
    place: str = ""  # the last line that it printed, where it failed, without what differs from run to run
    alike: int = 0  # so many of its ends in this attempt, the last ones, were alike
    standing: Standing = Standing.GOING  # of one that is UP


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A node is there, or is there with other properties than before."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone:
    """A node is there no more."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonNode:
    """A node is to be given nothing new, from now on and until it is uncordoned. The newest of several counts."""

    node: str
    cordon: Cordon


@dataclass(frozen=True, slots=True, kw_only=True)
class UncordonNode:
    """A node may be given work again, and what it was to blame for is forgiven."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed:
    """A node is to blame for what became of a job's attempt."""

    node: str
    job: str
    at: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A queued job gets its places, and is ACTIVE: devices are held from here until the attempt has ENDED."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The scheduler wants an attempt to stop."""

    attempt: str
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAttempt:
    """An attempt goes from one state to the next. `before` guards it."""

    attempt: str
    before: AttemptState
    after: AttemptState
    at: float
    cause: Cause | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJob:
    """A job goes from one state to the next. `before` guards it."""

    job: str
    before: JobState
    after: JobState
    at: float
    message: str = ""
    counted: int = 0  # 1 when this failure counts against the job's retries
    preempted: int = 0  # 1 when its attempt was stopped for others
    not_before: float = 0.0
    avoid: tuple[str, ...] = ()  # nodes that are to blame for what failed: the next attempt goes elsewhere if it can
    signs: tuple[tuple[str, str], ...] = ()  # what failed bore this sign, on this node
    ends: tuple[str, ...] = ()  # how it ended, and where
    restarts: int = 0  # in place, of the replica that explains the failure
    held_seconds: float = 0.0  # how long the attempt that has ended held its machines


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Why a queued job waits now."""

    job: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderMachines:
    """A queued job gets machines ordered; or, with none, those that were ordered for it are not to come any more."""

    job: str
    ordered: Ordered | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Time that a job has lost by the site's fault counts no more against who has a share."""

    job: str
    seconds: float
    until: float  # the end of what was lost
    at: float


Change: TypeAlias = (
    Submit
    | Cancel
    | Release
    | Relabel
    | Forget
    | Note
    | NodeSeen
    | NodeGone
    | CordonNode
    | UncordonNode
    | NodeFailed
    | Open
    | Ask
    | MoveAttempt
    | MoveJob
    | Explain
    | OrderMachines
    | Credit
)


def job_of(change: Change) -> str:
    """The job that a change concerns; empty for nodes."""
    match change:
        case MoveAttempt() | Note() | Ask():
            return job_of_attempt(change.attempt)
        case (
            MoveJob()
            | Explain()
            | OrderMachines()
            | Cancel()
            | Release()
            | Relabel()
            | Forget()
            | NodeFailed()
            | Credit()
        ):
            return change.job
        case Submit():
            return change.job.id
        case Open():
            return change.attempt.job
        case NodeSeen() | NodeGone() | CordonNode() | UncordonNode():
            return ""


@dataclass(frozen=True, slots=True)
class Start:
    """Order to an engine: make every replica of the attempt run. Given again until they all were seen."""

    attempt: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Order to an engine: end every replica of the attempt, for good. Given again until they are all gone."""

    attempt: str
    force: bool = False


Order: TypeAlias = Start | Stop
