"""What each change does to a job, an attempt, and the world."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.core.changes import (
    Cancel,
    Explain,
    MoveAttempt,
    MoveJob,
    NodeGone,
    NodeSeen,
    Note,
    Open,
    Relabel,
    Submit,
)
from stoker.core.errors import Conflict, IllegalMove
from stoker.core.job import Attempt, Job, Placement, Reason, Replica
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState, Standing, Wish
from stoker.core.world import World, apply, attempt_after, job_after, tells_news
from tests.builders import a_job, a_node


def an_attempt(job: Job, *roles: str) -> Attempt:
    return Attempt(
        id=f"{job.id}.1",
        job=job.id,
        number=1,
        engine="fake",
        placements=tuple(Placement(role=role, index=0, node="n0") for role in roles or ("chief",)),
        placed_at=1.0,
        replicas=tuple(Replica(role=role, index=0) for role in roles or ("chief",)),
    )


def test_cancel_is_a_wish_and_counts_once() -> None:
    cancelled = job_after(a_job(), Cancel(job="p/j", why="mine", at=2.0))
    assert (cancelled.wish, cancelled.wish_why, cancelled.state) == (Wish.CANCEL, "mine", JobState.QUEUED)
    assert job_after(cancelled, Cancel(job="p/j", why="again", at=3.0)) == cancelled


def test_cancel_of_an_ended_job_changes_nothing() -> None:
    ended = replace(a_job(), state=JobState.SUCCEEDED)
    assert job_after(ended, Cancel(job="p/j", why="late", at=2.0)) == ended


def test_relabel_replaces_and_is_guarded_by_the_revision() -> None:
    job = replace(a_job(), labels={"a": "1"})
    changed = job_after(job, Relabel(job="p/j", labels={"b": "2"}, if_revision=job.revision))
    assert (changed.labels, changed.revision) == ({"b": "2"}, job.revision + 1)
    with pytest.raises(Conflict):
        job_after(changed, Relabel(job="p/j", labels={}, if_revision=job.revision))


def test_open_makes_a_queued_job_active_and_only_that() -> None:
    job = a_job()
    opened = job_after(job, Open(attempt=an_attempt(job)))
    assert (opened.state, opened.tries) == (JobState.ACTIVE, 1)
    with pytest.raises(IllegalMove):
        job_after(opened, Open(attempt=an_attempt(job)))


def test_a_move_is_guarded_by_what_it_says_was_before() -> None:
    move = MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.SUCCEEDED, at=5.0)
    with pytest.raises(IllegalMove, match="p/j is QUEUED, not ACTIVE"):
        job_after(a_job(), move)
    ended = job_after(replace(a_job(), state=JobState.ACTIVE), move)
    assert (ended.state, ended.ended_at) == (JobState.SUCCEEDED, 5.0)


def test_the_first_running_is_the_start_and_stays_it() -> None:
    job = replace(a_job(), state=JobState.ACTIVE)
    running = MoveAttempt(attempt="p/j.1", before=AttemptState.STARTING, after=AttemptState.RUNNING, at=7.0)
    started = job_after(job, running)
    assert started.started_at == 7.0
    assert job_after(started, replace(running, at=9.0)).started_at == 7.0


def test_a_replica_goes_forward_only() -> None:
    attempt = an_attempt(a_job())
    up = attempt_after(attempt, Note(attempt=attempt.id, role="chief", index=0, seen=ReplicaState.UP, at=1.0))
    late = Note(attempt=attempt.id, role="chief", index=0, seen=ReplicaState.STARTING, at=2.0)
    assert not tells_news(up, late)
    assert attempt_after(up, late) == up
    failed = Note(attempt=attempt.id, role="chief", index=0, seen=ReplicaState.FAILED, at=3.0, exit_code=1)
    assert attempt_after(up, failed).replicas[0].exit_code == 1


def test_addresses_once_said_stay_though_the_state_is_old_news() -> None:
    attempt = an_attempt(a_job())
    starting = Note(attempt=attempt.id, role="chief", index=0, seen=ReplicaState.STARTING, at=1.0)
    seen = attempt_after(attempt, starting)
    said = replace(starting, addresses=("127.0.0.1:1",))
    assert tells_news(seen, said)
    again = attempt_after(attempt_after(seen, said), replace(said, addresses=("127.0.0.1:2",)))
    assert again.replicas[0].addresses == ("127.0.0.1:1",)


def test_a_world_holds_the_living_only() -> None:
    world, job = World(), a_job()
    attempt = an_attempt(job)
    apply(world, Submit(job=job))
    apply(world, NodeSeen(node=a_node("n0")))
    apply(world, Explain(job=job.id, reason=Reason(code="NO_ROOM", text="t")))
    assert world.jobs[job.id].waits == Reason(code="NO_ROOM", text="t")
    apply(world, Open(attempt=attempt))
    assert world.attempt(job.id) == attempt and world.jobs[job.id].waits is None
    for before, after, cause in (
        (AttemptState.PLACED, AttemptState.STOPPING, Cause.CANCELLED),
        (AttemptState.STOPPING, AttemptState.ENDED, None),
    ):
        apply(world, MoveAttempt(attempt=attempt.id, before=before, after=after, at=2.0, cause=cause))
    assert not world.attempts and world.attempt(job.id) is None
    apply(world, MoveJob(job=job.id, before=JobState.ACTIVE, after=JobState.CANCELLED, at=3.0))
    apply(world, NodeGone(name="n0"))
    assert not world.jobs and not world.nodes


def test_a_change_of_what_has_ended_passes_a_world_by() -> None:
    world = World()
    apply(world, Cancel(job="p/gone", why="", at=1.0))
    apply(world, Note(attempt="p/gone.1", role="chief", index=0, seen=ReplicaState.UP, at=1.0))
    assert world == World()


def a_note(seen: ReplicaState, at: float, **more: Any) -> Note:
    """Something seen of the chief."""
    return Note(attempt="p/j.1", role="chief", index=0, seen=seen, at=at, **more)


def test_one_that_is_up_may_stand_still_and_go_on_again() -> None:
    attempt = an_attempt(a_job())
    for at, standing in ((2.0, Standing.GOING), (3.0, Standing.QUIET), (4.0, Standing.GOING)):
        note = a_note(ReplicaState.UP, at, standing=standing)
        assert tells_news(attempt, note)
        attempt = attempt_after(attempt, note)
        assert not tells_news(attempt, note), "the same again is old news"
        assert attempt.replicas[0].standing is standing
    assert (attempt.replicas[0].at, attempt.replicas[0].standing_at) == (2.0, 4.0)


def test_a_place_that_is_kept_is_kept_to_its_end_whatever_comes_late() -> None:
    attempt = attempt_after(an_attempt(a_job()), a_note(ReplicaState.UP, 2.0))
    held = a_note(ReplicaState.UP, 3.0, standing=Standing.HELD, exit_code=3, sign="NAN", evidence="loss is nan")
    attempt = attempt_after(attempt, held)
    late = a_note(ReplicaState.UP, 4.0)
    assert not tells_news(attempt, late) and attempt_after(attempt, late) == attempt
    attempt = attempt_after(attempt, replace(held, seen=ReplicaState.FAILED, at=9.0))
    (replica,) = attempt.replicas
    assert (replica.seen, replica.exit_code, replica.sign, replica.at, replica.standing_at) == (
        ReplicaState.FAILED,
        3,
        "NAN",
        9.0,
        3.0,
    )
