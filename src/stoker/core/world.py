"""What exists right now: live jobs, their live attempts, the nodes and what is kept of them. Changed in place only by `apply`.

A World is a projection of the story: whoever needs one builds it from the store and then applies each committed change.
Nobody shares one, so nobody locks one. What has ended is not in it.

`job_after`, `attempt_after` and `record_after` say what a change does to one row. Every store uses them, so that memory and SQL
cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import TypeVar

from . import changes as c
from .copies import replace
from .errors import Conflict, IllegalMove, NotFound
from .job import Attempt, Job, Replica
from .node import FAULT_SECONDS, MOST_FAULTS, Fault, Node, NodeRecord, NodeState
from .states import (
    ATTEMPT_MOVES,
    FINAL_JOB_STATES,
    JOB_MOVES,
    REPLICA_MOVES,
    AttemptState,
    JobState,
    ReplicaState,
    Standing,
    Wish,
    check_move,
)


@dataclass(slots=True)
class World:
    """Live rows only, and the story's position up to which they are true."""

    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)  # of live jobs, not ENDED
    attempt_of: dict[str, str] = field(default_factory=dict)  # job id → its live attempt
    nodes: dict[str, Node] = field(default_factory=dict)
    records: dict[str, NodeRecord] = field(default_factory=dict)  # by the node's name, be it there or not
    pooled: dict[str, None] = field(default_factory=dict)  # the nodes that are of a pool
    leaving: dict[str, float] = field(default_factory=dict)  # nodes that have to be empty by a moment
    position: int = 0

    def __post_init__(self) -> None:
        self.pooled = {name: None for name, node in self.nodes.items() if node.pool}
        for name in (*self.nodes, *self.records):
            _note_leaving(self, name)

    def attempt(self, job: str) -> Attempt | None:
        """The live attempt of a job."""
        found = self.attempt_of.get(job)
        return self.attempts[found] if found else None

    def is_up(self, node: str) -> bool:
        """Whether its engine vouches for a node: it is there, and not DOWN."""
        found = self.nodes.get(node)
        return found is not None and found.state is not NodeState.DOWN

    def takes_work(self, node: Node) -> bool:
        """Whether a node may be given something new."""
        record = self.records.get(node.name)
        is_cordoned = record is not None and record.cordon is not None
        return node.state is NodeState.UP and node.leaving_at is None and not is_cordoned


Row = TypeVar("Row", Job, Attempt)


def remembered(after: Callable[[Row, c.Change], Row]) -> Callable[[Row, c.Change], Row]:
    """Work out once what one change makes of one row: the scheduler, the store and every World that follows ask for it in turn.

    Rows and changes are frozen, so the same two objects always give the same row.
    """
    known: dict[int, tuple[Row, c.Change, Row]] = {}

    @wraps(after)
    def find(row: Row, change: c.Change) -> Row:
        found = known.get(id(change))
        if found is not None and found[0] is row and found[1] is change:
            return found[2]
        result = after(row, change)
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        known[id(change)] = (row, change, result)
        return result

    return find


_MOST_REMEMBERED = 256


@remembered
def job_after(job: Job, change: c.Change) -> Job:
    """The row of the job after a change that concerns it. Raises IllegalMove or Conflict."""
    match change:
        case c.Cancel():
            if job.state in FINAL_JOB_STATES or job.wish is Wish.CANCEL:
                return job
            return replace(job, wish=Wish.CANCEL, wish_why=change.why, revision=job.revision + 1)
        case c.Release():
            return replace(job, released=job.tries, revision=job.revision + 1)
        case c.Relabel():
            if change.if_revision is not None and change.if_revision != job.revision:
                raise Conflict("the job has changed since that etag was read", fix="get the job again and repeat")
            return replace(job, labels=dict(change.labels), revision=job.revision + 1)
        case c.Forget():
            if job.state not in FINAL_JOB_STATES:
                raise IllegalMove(f"{job.id} has not ended", fix="cancel it first")
            return job
        case c.Explain():
            return replace(job, waits=change.reason)
        case c.OrderMachines():
            if job.state is not JobState.QUEUED:
                return job  # it has its machines, or has ended
            return replace(job, ordered=change.ordered, revision=job.revision + 1)
        case c.Credit():
            return replace(job, credited_seconds=job.credited_seconds + change.seconds)
        case c.Open():
            _expect(job.state, JobState.QUEUED, job.id)
            check_move(JOB_MOVES, job.state, JobState.ACTIVE, job.id)
            if job.wish is Wish.CANCEL:
                raise Conflict(f"{job.id} was cancelled meanwhile")
            return replace(
                job,
                state=JobState.ACTIVE,
                tries=change.attempt.number,
                waits=None,
                ordered=None,
                revision=job.revision + 1,
            )
        case c.MoveAttempt(after=AttemptState.RUNNING):
            started = change.at if job.started_at is None else job.started_at
            return replace(job, started_at=started, revision=job.revision + 1)
        case c.MoveJob():
            _expect(job.state, change.before, job.id)
            check_move(JOB_MOVES, change.before, change.after, job.id)
            return replace(
                job,
                state=change.after,
                started_at=change.at if _ran_unseen(job, change) else job.started_at,
                failures=job.failures + change.counted,
                preemptions=job.preemptions + change.preempted,
                requeued_at=change.at if change.after is JobState.QUEUED else job.requeued_at,
                not_before=change.not_before,
                avoid=tuple(sorted({*job.avoid, *change.avoid})),
                signs=job.signs + change.signs,
                ends=job.ends + change.ends,
                restarts=job.restarts + change.restarts,
                held_seconds=job.held_seconds + change.held_seconds,
                ended_at=change.at if change.after in FINAL_JOB_STATES else None,
                message=change.message,
                waits=None,
                ordered=None,
                revision=job.revision + 1,
            )
        case _:
            return job


@remembered
def attempt_after(attempt: Attempt, change: c.Change) -> Attempt:
    """The row of the attempt after a change that concerns it. Raises IllegalMove or Conflict."""
    match change:
        case c.Ask():
            return replace(attempt, asked=attempt.asked or change.cause)
        case c.Note():
            replicas = tuple(_noted(r, change) if _is(r, change) else r for r in attempt.replicas)
            return replace(attempt, replicas=replicas)
        case c.MoveAttempt():
            _expect(attempt.state, change.before, attempt.id)
            check_move(ATTEMPT_MOVES, change.before, change.after, attempt.id)
            return replace(
                attempt,
                state=change.after,
                cause=change.cause or attempt.cause,
                detail=change.detail or attempt.detail,
                started_at=change.at if change.after is AttemptState.RUNNING else attempt.started_at,
                stopping_at=change.at if change.after is AttemptState.STOPPING else attempt.stopping_at,
                ended_at=change.at if change.after is AttemptState.ENDED else None,
            )
        case _:
            return attempt


def record_after(record: NodeRecord | None, change: c.CordonNode | c.UncordonNode | c.NodeFailed) -> NodeRecord | None:
    """What is kept of a node after a change that concerns it. None: nothing."""
    record = record or NodeRecord(node=change.node)
    match change:
        case c.CordonNode():
            return replace(record, cordon=change.cordon)
        case c.UncordonNode():
            return None
        case c.NodeFailed():
            since = change.at - FAULT_SECONDS
            recent = [fault for fault in record.faults if fault.at >= since][1 - MOST_FAULTS :]
            return replace(record, faults=(*recent, Fault(job=change.job, at=change.at, what=change.what)))


def tells_news(attempt: Attempt, note: c.Note) -> bool:
    """Whether a note says anything that is not written already."""
    return any(
        note.seen in REPLICA_MOVES[r.seen]
        or note.restarts > r.restarts
        or (note.addresses and not r.addresses)
        or _stands_otherwise(r, note)
        for r in attempt.replicas
        if _is(r, note)
    )


def apply(world: World, change: c.Change) -> None:
    """Change the world as the change says. The only function that writes a World."""
    match change:
        case c.Submit():
            world.jobs[change.job.id] = change.job
        case c.NodeSeen():
            world.nodes[change.node.name] = change.node
            if change.node.pool:
                world.pooled[change.node.name] = None
            _note_leaving(world, change.node.name)
        case c.NodeGone():
            world.nodes.pop(change.name, None)
            world.pooled.pop(change.name, None)
            _note_leaving(world, change.name)
        case c.CordonNode() | c.UncordonNode() | c.NodeFailed():
            record = record_after(world.records.pop(change.node, None), change)
            if record is not None:
                world.records[change.node] = record
            _note_leaving(world, change.node)
        case c.Open():
            job = _row(world.jobs, change.attempt.job)
            world.jobs[job.id] = job_after(job, change)
            world.attempts[change.attempt.id] = change.attempt
            world.attempt_of[job.id] = change.attempt.id
        case c.Cancel() | c.Release() | c.Relabel() | c.Explain() | c.OrderMachines() | c.MoveJob() | c.Credit():
            if change.job not in world.jobs:
                return  # it has ended, and a World holds the living only
            if isinstance(change, c.Relabel) and change.if_revision is not None:
                change = replace(change, if_revision=None)  # it was checked when it was written
            after = job_after(world.jobs[change.job], change)
            world.jobs[change.job] = after
            if after.state in FINAL_JOB_STATES:
                del world.jobs[change.job]
        case c.Ask() | c.Note() | c.MoveAttempt():
            attempt = world.attempts.get(change.attempt)
            if attempt is None:
                return
            attempt = world.attempts[attempt.id] = attempt_after(attempt, change)
            if attempt.state is AttemptState.ENDED:
                del world.attempts[attempt.id]
                world.attempt_of.pop(attempt.job, None)
            if isinstance(change, c.MoveAttempt) and attempt.job in world.jobs:
                world.jobs[attempt.job] = job_after(world.jobs[attempt.job], change)


def _note_leaving(world: World, name: str) -> None:
    """By when a node has to be empty: as its engine was told, or as the admin wants, whichever is sooner."""
    node, record = world.nodes.get(name), world.records.get(name)
    told = None if node is None else node.leaving_at
    wanted = None if record is None or record.cordon is None else record.cordon.empty_at
    moments = [moment for moment in (told, wanted) if moment is not None]
    if moments:
        world.leaving[name] = min(moments)
    else:
        world.leaving.pop(name, None)


def _ran_unseen(job: Job, change: c.MoveJob) -> bool:
    """Whether its chief was done before all the others were up: it has run, at the latest now."""
    return job.started_at is None and change.after is JobState.SUCCEEDED


def _row(rows: Mapping[str, Job], key: str) -> Job:
    if key not in rows:
        raise NotFound(f"no live job {key}")
    return rows[key]


def _expect(found: StrEnum, expected: StrEnum, who: str) -> None:
    if found is not expected:
        raise IllegalMove(f"{who} is {found}, not {expected}")


def _is(replica: Replica, note: c.Note) -> bool:
    return replica.role == note.role and replica.index == note.index


def _stands_otherwise(replica: Replica, note: c.Note) -> bool:
    """Whether one that is UP gets on otherwise than it did. A place that is kept is kept to its end."""
    is_up = replica.seen is note.seen is ReplicaState.UP
    return is_up and note.standing is not replica.standing and replica.standing is not Standing.HELD


def _noted(replica: Replica, note: c.Note) -> Replica:
    """A replica goes forward only: what is already past is old news."""
    if replica.addresses == () and note.addresses:
        replica = replace(replica, addresses=note.addresses)
    if note.restarts > replica.restarts:
        replica = replace(replica, restarts=note.restarts, restarted_at=note.at)
    moves = note.seen in REPLICA_MOVES[replica.seen]
    if not moves and not _stands_otherwise(replica, note):
        return replica
    if note.seen is ReplicaState.UP and note.standing is not replica.standing:
        replica = replace(replica, standing=note.standing, standing_at=note.at)
    return replace(
        replica,
        seen=note.seen,
        exit_code=note.exit_code,
        message=note.message,
        out_of_memory=note.out_of_memory,
        sign=note.sign,
        evidence=note.evidence,
        place=note.place,
        alike=note.alike,
        at=note.at if moves else replica.at,
    )
