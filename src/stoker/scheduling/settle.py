"""What follows from what was seen: how live attempts move on, and what an ended attempt means for its job."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.core.changes import Change, MoveAttempt, MoveJob
from stoker.core.convention import Convention, replica_title
from stoker.core.job import Attempt, Job, Replica
from stoker.core.states import (
    FATE,
    FINAL_REPLICA_STATES,
    AttemptState,
    Cause,
    EndsWith,
    Fate,
    JobState,
    ReplicaState,
    Wish,
)
from stoker.core.world import World, attempt_after, job_after
from stoker.runtime.exits import PERMANENT, exit_class

from . import nodes

LONGEST_BACKOFF_SECONDS = 60.0

COLLATERAL_SECONDS = 300.0
"""A replica that fails so soon after a peer was killed and started again failed because of it: frameworks end a member whose
peer went away with an error, TensorFlow and gloo after seconds, JAX after about 100."""


def settle(world: World, job: Job, now: float) -> Iterator[Change]:
    """The moves that what is written of a job now demands, as far as they lead by themselves."""
    attempt = world.attempt(job.id)
    if attempt is None:
        yield from _waiting_moves(job, now)
    else:
        yield from _attempt_moves(world, job, attempt, now)


def _waiting_moves(job: Job, now: float) -> Iterator[Change]:
    if job.state is JobState.QUEUED:
        if job.wish is Wish.CANCEL:
            yield _job_ends(job, JobState.CANCELLED, now, job.wish_why)
        elif _waited_out(job, now):
            yield _job_ends(job, JobState.CANCELLED, now, _waited_out_message(job))


def _attempt_moves(world: World, job: Job, attempt: Attempt, now: float) -> Iterator[Change]:
    """One move after the other, until one needs the world to go on first."""
    while True:
        move = _next_move(world, job, attempt, now)
        if move is None:
            return
        yield move
        job, attempt = job_after(job, move), attempt_after(attempt, move)
        if attempt.state is AttemptState.ENDED:
            found = list(nodes.faults(world, attempt, now))
            yield from found
            fate = job_fate(job, attempt, now, avoid=tuple(change.node for change in found))
            yield fate
            yield from _waiting_moves(job_after(job, fate), now)
            return


def _next_move(world: World, job: Job, attempt: Attempt, now: float) -> MoveAttempt | None:
    seen = {replica.seen for replica in attempt.replicas}
    if attempt.state is AttemptState.STOPPING:
        if not seen <= FINAL_REPLICA_STATES:
            return None
        return _move(attempt, AttemptState.ENDED, now, *_in_hindsight(world, job, attempt))
    if attempt.state is AttemptState.PLACED and seen != {ReplicaState.NOTHING}:
        return _move(attempt, AttemptState.STARTING, now)
    if attempt.state is AttemptState.STARTING and seen <= {ReplicaState.UP, ReplicaState.SUCCEEDED}:
        return _move(attempt, AttemptState.RUNNING, now)  # it was, though it may be over by now
    stop = _why_stop(world, job, attempt, now)
    return _move(attempt, AttemptState.STOPPING, now, *stop) if stop is not None else None


def _in_hindsight(world: World, job: Job, attempt: Attempt) -> tuple[Cause | None, str]:
    """What explains a failure better than what was seen first: a node that was lost takes the others' peers away."""
    if attempt.cause in (Cause.REPLICA_FAILED, Cause.REPLICA_CRASHED, Cause.REPLICA_LOST):
        for replica in attempt.replicas:
            if nodes.is_by_node(world, attempt, replica):
                return Cause.NODE_LOST, failure_message(job.spec.convention, replica)
    return None, ""


def _why_stop(world: World, job: Job, attempt: Attempt, now: float) -> tuple[Cause, str] | None:
    """Why a live attempt has to stop, most telling first. A job that is done is done, whatever else happened."""
    if _is_done(job, attempt):
        return Cause.COMPLETED, ""
    if job.wish is Wish.CANCEL:
        return Cause.CANCELLED, job.wish_why
    if attempt.asked is not None:
        return attempt.asked, ""
    first = _first_down(attempt)
    if first is not None:
        return _down_cause(world, attempt, first), failure_message(job.spec.convention, first)
    leaves_at = nodes.leaves_at(world, job, attempt)
    if leaves_at is not None and now >= leaves_at:
        return Cause.DRAINED, nodes.leaving_message(world, attempt)
    if attempt.started_at is not None and now >= attempt.started_at + job.spec.limits.running_seconds:
        return Cause.TIMED_OUT, f"The job ran longer than {_limit(job)} ({job.spec.limits.running_seconds:g}s)."
    if _waited_out(job, now):
        return Cause.WAITED_OUT, _waited_out_message(job)
    return None


def _limit(job: Job) -> str:
    """What the limit of running is called where the job comes from."""
    return "its timeout" if job.spec.convention is Convention.VERTEX else "maxRunningTime"


def _first_down(attempt: Attempt) -> Replica | None:
    """The replica that went down first. Of those seen down at one moment, one that was lost explains the others."""
    down = [r for r in attempt.replicas if r.seen in (ReplicaState.FAILED, ReplicaState.LOST)]
    return min(down, key=lambda r: (r.at, r.seen is ReplicaState.FAILED), default=None)


def _down_cause(world: World, attempt: Attempt, first: Replica) -> Cause:
    if nodes.is_by_node(world, attempt, first) or nodes.lost_nodes(world, attempt):
        return Cause.NODE_LOST  # a peer of one on such a node fails because of it, whatever it says itself
    if first.seen is ReplicaState.LOST:
        return Cause.REPLICA_LOST
    if first.exit_code is None:
        return Cause.LAUNCH_FAILED
    if exit_class(first.exit_code, first.out_of_memory) != PERMANENT or _is_collateral(attempt, first):
        return Cause.REPLICA_CRASHED
    return Cause.REPLICA_FAILED


def _is_collateral(attempt: Attempt, failed: Replica) -> bool:
    """Whether a peer was killed shortly before: then the error is the peer's going away, and may pass."""
    return any(
        peer.restarts and 0 <= failed.at - peer.restarted_at <= COLLATERAL_SECONDS
        for peer in attempt.replicas
        if peer is not failed
    )


def _is_done(job: Job, attempt: Attempt) -> bool:
    if job.spec.ends_with is EndsWith.ALL:
        return all(r.seen is ReplicaState.SUCCEEDED for r in attempt.replicas)
    return any(r.role == "chief" and r.seen is ReplicaState.SUCCEEDED for r in attempt.replicas)


def job_fate(job: Job, attempt: Attempt, now: float, avoid: tuple[str, ...] = ()) -> MoveJob:
    """What an ended attempt means for its job, by the table FATE. `avoid`: nodes that were to blame."""
    assert attempt.cause is not None, f"{attempt.id} stopped without a cause"
    fate, held = FATE[attempt.cause], now - attempt.placed_at
    if fate is Fate.RETRY and job.failures >= job.spec.retry.whole_job:
        return _job_ends(job, JobState.FAILED, now, _after_all(attempt), held)
    match fate:
        case Fate.SUCCEED:
            return _job_ends(job, JobState.SUCCEEDED, now, "", held)
        case Fate.FAIL:
            return _job_ends(job, JobState.FAILED, now, attempt.detail, held)
        case Fate.CANCEL:
            return _job_ends(job, JobState.CANCELLED, now, attempt.detail or job.wish_why, held)
        case Fate.RETRY | Fate.REQUEUE:
            counted = int(fate is Fate.RETRY)
            backoff = min(LONGEST_BACKOFF_SECONDS, 2.0**job.failures) if counted else 0.0
            return MoveJob(
                job=job.id,
                before=job.state,
                after=JobState.QUEUED,
                at=now,
                message=attempt.detail,
                counted=counted,
                preempted=int(attempt.cause is Cause.PREEMPTED),
                not_before=now + backoff,
                avoid=avoid,
                held_seconds=held,
            )


def _after_all(attempt: Attempt) -> str:
    tries = f" It was tried {attempt.number} times in all." if attempt.number > 1 else ""
    return attempt.detail + tries


def failure_message(convention: Convention, replica: Replica) -> str:
    """The sentence for Job.errorMessage. Shapes: AI Platform, understanding-training-service."""
    who = f"The replica {replica_title(convention, replica.role, replica.index)}"
    if replica.seen is ReplicaState.LOST:
        return f"{who} was lost: {replica.message or 'it answers no more'}."
    if replica.exit_code is None:
        return f"{who} could not be started. {replica.message}".rstrip()
    memory = " ran out of memory and" if replica.out_of_memory else ""
    return f"{who}{memory} exited with a non-zero status of {replica.exit_code}. {replica.message}".rstrip()


def deadlines(world: World, job: Job, attempt: Attempt | None) -> Iterator[float]:
    """When time alone will demand something of a job, in seconds since the epoch."""
    if attempt is not None and attempt.state is not AttemptState.STOPPING:
        leaves_at = nodes.leaves_at(world, job, attempt)
        if leaves_at is not None:
            yield leaves_at
    if attempt is not None and attempt.started_at is not None and attempt.state is AttemptState.RUNNING:
        yield attempt.started_at + job.spec.limits.running_seconds
    if attempt is not None and attempt.state is AttemptState.STOPPING and attempt.stopping_at is not None:
        yield attempt.stopping_at + force_after_seconds(job)
    if job.started_at is None and job.spec.limits.wait_seconds is not None:
        yield job.submitted_at + job.spec.limits.wait_seconds
    if job.state is JobState.QUEUED:
        yield job.not_before


def force_after_seconds(job: Job) -> float:
    """How long after STOPPING the engine is told to kill instead of asking: the grace, and what its supervisor needs."""
    return job.spec.limits.grace_seconds + nodes.STOP_SECONDS


def _waited_out(job: Job, now: float) -> bool:
    wait = job.spec.limits.wait_seconds
    return job.started_at is None and wait is not None and now >= job.submitted_at + wait


def _waited_out_message(job: Job) -> str:
    return f"The job was not RUNNING within maxWaitTime ({job.spec.limits.wait_seconds:g}s)."


def _move(
    attempt: Attempt, after: AttemptState, now: float, cause: Cause | None = None, detail: str = ""
) -> MoveAttempt:
    return MoveAttempt(attempt=attempt.id, before=attempt.state, after=after, at=now, cause=cause, detail=detail)


def _job_ends(job: Job, after: JobState, now: float, message: str, held_seconds: float = 0.0) -> MoveJob:
    return MoveJob(job=job.id, before=job.state, after=after, at=now, message=message, held_seconds=held_seconds)
