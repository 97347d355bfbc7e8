"""What follows from what was seen: how live attempts move on, and what an ended attempt means for its job."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.core.changes import Change, MoveAttempt, MoveJob
from stoker.core.convention import Convention, replica_title
from stoker.core.copies import replace
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
    Standing,
    Wish,
)
from stoker.core.world import World, attempt_after, job_after
from stoker.runtime.repeated_ends import MOST_ALIKE
from stoker.runtime.signature_table import AGAIN

from . import nodes
from .doctor import (
    Again,
    again_of,
    diagnose,
    end_of,
    ends_alike,
    failure_message,
    find_culprit,
    first_quiet,
    has_elsewhere,
    is_held,
    is_infra,
    is_poison,
    may_stay,
    tries_of,
)

FIRST_BACKOFF_SECONDS = 0.05  # most failures are of a machine that went away: a job that waits loses time for nothing
LONGEST_BACKOFF_SECONDS = 60.0
_DOWN = frozenset({ReplicaState.FAILED, ReplicaState.LOST})
_FAILED = frozenset({Cause.REPLICA_FAILED, Cause.REPLICA_CRASHED, Cause.REPLICA_LOST, Cause.LAUNCH_FAILED})


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
            fate = job_fate(world, job, attempt, now, blamed=tuple(change.node for change in found))
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


def _in_hindsight(world: World, job: Job, attempt: Attempt) -> tuple[Cause, str] | tuple[()]:
    """What explains a failure better, now that all of them have ended: the effects are often seen before their cause.

    A node that was lost takes the others' peers away. Where a place was kept after a failure, that is the end, for whatever
    reason it is given back.
    """
    was_held = any(r.standing is Standing.HELD and r.seen is ReplicaState.FAILED for r in attempt.replicas)
    if attempt.cause not in _FAILED and (not was_held or attempt.cause is Cause.COMPLETED):
        return ()
    for replica in attempt.replicas:
        if nodes.is_by_node(world, attempt, replica):
            return Cause.NODE_LOST, failure_message(job.spec.convention, replica)
    failed = _why_failed(world, job, attempt)
    return failed if failed is not None and failed != (attempt.cause, attempt.detail) else ()


def _why_stop(world: World, job: Job, attempt: Attempt, now: float) -> tuple[Cause, str] | None:
    """Why a live attempt has to stop, most telling first. A job that is done is done, whatever else happened."""
    if _is_done(job, attempt):
        return Cause.COMPLETED, ""
    seen = {replica.seen for replica in attempt.replicas}
    if job.wish is Wish.CANCEL:
        return Cause.CANCELLED, job.wish_why
    if attempt.asked is not None:
        return attempt.asked, ""
    held = any(is_held(replica) for replica in attempt.replicas)
    if seen & _DOWN or (held and job.released >= attempt.number):
        return _why_failed(world, job, attempt)
    leaves_at = nodes.leaves_at(world, job, attempt)
    if leaves_at is not None and now >= leaves_at:
        return Cause.DRAINED, nodes.leaving_message(world, attempt)
    quiet = first_quiet(attempt)
    if quiet is not None and attempt.state is AttemptState.RUNNING and job.spec.limits.hang_seconds:
        who = replica_title(job.spec.convention, quiet.role, quiet.index)
        return Cause.HUNG, f"The replica {who} hung: {quiet.evidence}."
    if attempt.started_at is not None and now >= attempt.started_at + job.spec.limits.running_seconds:
        return Cause.TIMED_OUT, f"The job ran longer than {_limit(job)} ({job.spec.limits.running_seconds:g}s)."
    if _waited_out(job, now):
        return Cause.WAITED_OUT, _waited_out_message(job)
    return None


def _limit(job: Job) -> str:
    """What the limit of running is called where the job comes from."""
    return "its timeout" if job.spec.convention is Convention.VERTEX else "maxRunningTime"


def _why_failed(world: World, job: Job, attempt: Attempt) -> tuple[Cause, str] | None:
    """The cause and the sentence for the replica whose failure explains the others'; None where none has failed."""
    culprit = find_culprit(job, attempt)
    if culprit is None:
        return None
    return _down_cause(world, job, attempt, culprit), failure_message(job.spec.convention, culprit)


def _down_cause(world: World, job: Job, attempt: Attempt, culprit: Replica) -> Cause:
    if nodes.is_by_node(world, attempt, culprit) or nodes.lost_nodes(world, attempt):
        return Cause.NODE_LOST  # a peer of one on such a node fails because of it, whatever it says itself
    if culprit.seen is ReplicaState.LOST:
        return Cause.REPLICA_LOST
    if again_of(job, attempt, culprit) is not Again.NEVER:
        return Cause.REPLICA_CRASHED
    return Cause.LAUNCH_FAILED if culprit.exit_code is None else Cause.REPLICA_FAILED


def _is_done(job: Job, attempt: Attempt) -> bool:
    if job.spec.ends_with is EndsWith.ALL:
        return all(r.seen is ReplicaState.SUCCEEDED for r in attempt.replicas)
    return any(r.role == "chief" and r.seen is ReplicaState.SUCCEEDED for r in attempt.replicas)


def job_fate(world: World, job: Job, attempt: Attempt, now: float, *, blamed: tuple[str, ...] = ()) -> MoveJob:
    """What an ended attempt means for its job, by the table FATE. `blamed`: nodes that were at fault."""
    assert attempt.cause is not None, f"{attempt.id} stopped without a cause"
    fate, held = FATE[attempt.cause], now - attempt.placed_at
    if fate is Fate.RETRY:
        return _tried_again(world, job, attempt, now, held, blamed)
    match fate:
        case Fate.SUCCEED:
            return _job_ends(job, JobState.SUCCEEDED, now, "", held)
        case Fate.FAIL:
            return _job_ends(job, JobState.FAILED, now, attempt.detail, held)
        case Fate.CANCEL:
            return _job_ends(job, JobState.CANCELLED, now, attempt.detail or job.wish_why, held)
        case Fate.REQUEUE:
            return _queued_again(job, attempt, now, held, blamed)


def _queued_again(job: Job, attempt: Attempt, now: float, held: float, blamed: tuple[str, ...]) -> MoveJob:
    """Back to the queue, free of charge."""
    return MoveJob(
        job=job.id,
        before=job.state,
        after=JobState.QUEUED,
        at=now,
        message=attempt.detail,
        preempted=int(attempt.cause is Cause.PREEMPTED),
        not_before=now,
        avoid=blamed,
        held_seconds=held,
    )


def _tried_again(world: World, job: Job, attempt: Attempt, now: float, held: float, blamed: tuple[str, ...]) -> MoveJob:
    """Another try, counted, away from the node that is to blame; or the end, where that would not help."""
    found = diagnose(job, attempt)
    assert found is not None, f"{attempt.id} is tried again though nothing failed"
    culprit = find_culprit(job, attempt)
    if job.failures >= job.spec.retry.whole_job:
        return _job_ends(job, JobState.FAILED, now, _after_all(job, attempt), held)
    alike = ends_alike(job, culprit)
    if job.spec.retry.ends_early and alike >= MOST_ALIKE and not is_infra(found.code):
        pattern = f"It ended in this way, at the same place, {alike} times in a row."
        return _job_ends(job, JobState.FAILED, now, f"{attempt.detail} {pattern}", held)
    if is_poison(job, found):
        before = "It hung before." if attempt.cause is Cause.HUNG else "It failed so before, on another node."
        return _job_ends(job, JobState.FAILED, now, f"{attempt.detail} {before}", held)
    bears_sign = found.code in AGAIN or attempt.cause is Cause.HUNG
    goes_elsewhere = found.again is Again.ELSEWHERE
    others = filter(world.takes_work, world.nodes.values())  # looked through only where it is asked
    if goes_elsewhere and not may_stay(job, attempt) and not has_elsewhere(job, others, found.node):
        return _job_ends(job, JobState.FAILED, now, f"{attempt.detail} There is no other node to try.", held)
    return replace(
        _queued_again(job, attempt, now, held, blamed),
        counted=1,
        not_before=now + _backoff_seconds(job.failures),
        avoid=(*blamed, *([found.node] if goes_elsewhere and found.node else [])),
        signs=((found.code, found.node),) if bears_sign else (),
        ends=(end_of(culprit),),
        restarts=culprit.restarts if culprit is not None else 0,
    )


def _backoff_seconds(failures: int) -> float:
    """The pause after so many failures and one more."""
    return min(LONGEST_BACKOFF_SECONDS, 4.0 ** (failures - 1)) if failures else FIRST_BACKOFF_SECONDS


def _after_all(job: Job, attempt: Attempt) -> str:
    tries = tries_of(job, attempt)
    return f"{attempt.detail} {tries[0].upper()}{tries[1:]}."


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
