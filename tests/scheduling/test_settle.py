"""What follows from what was seen: each rule of a job's life, as a story on the fake engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.changes import Note
from stoker.core.spec import Limits, Retry
from stoker.core.states import AttemptState, EndsWith, JobState, ReplicaState
from stoker.scheduling.doctor import COLLATERAL_SECONDS
from tests.builders import House, a_house

UP, SUCCEEDED, FAILED, LOST = ReplicaState.UP, ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST


def running(house: House, **spec: object) -> str:
    """A job that runs. Returns its attempt's id."""
    house.submit(**spec)
    house.tick()
    house.engine.set("p/j.1", UP)
    house.tick()
    return "p/j.1"


def end_all(house: House) -> None:
    """Whatever was told to stop has ended."""
    for attempt in house.engine.stopping():
        house.engine.gone(attempt)
    house.tick()


def test_from_queued_to_succeeded(house: House) -> None:
    house.submit(gpus=4)
    assert house.job().state is JobState.QUEUED
    house.tick()
    assert house.store.attempt("p/j.1").state is AttemptState.STARTING
    house.engine.set("p/j.1", UP)
    house.tick(seconds=3)
    assert house.store.attempt("p/j.1").state is AttemptState.RUNNING
    assert house.job().started_at == house.clock.now()
    house.engine.set("p/j.1", SUCCEEDED)
    house.tick(seconds=5)
    assert (house.job().state, house.job().ended_at, house.job().message) == (
        JobState.SUCCEEDED,
        house.clock.now(),
        "",
    )


def test_running_only_when_every_replica_is_up(house: House) -> None:
    house.submit(workers=2)
    house.tick()
    house.engine.set("p/j.1", UP, "chief-0", "worker-0")
    house.tick()
    assert house.store.attempt("p/j.1").state is AttemptState.STARTING
    house.engine.set("p/j.1", UP, "worker-1")
    house.tick()
    assert house.store.attempt("p/j.1").state is AttemptState.RUNNING


def test_the_chief_ends_the_job_and_the_rest_is_stopped_first(house: House) -> None:
    attempt = running(house, workers=1, ps=1)
    house.engine.set(attempt, SUCCEEDED, "chief-0")
    house.tick()
    assert house.job().state is JobState.ACTIVE, "its parameter server still runs"
    house.engine.gone(attempt)
    house.tick()
    assert house.job().state is JobState.SUCCEEDED


def test_a_worker_that_is_done_does_not_end_the_job(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, SUCCEEDED, "worker-0")
    house.tick()
    assert house.store.attempt(attempt).state is AttemptState.RUNNING


def test_ends_with_all_waits_for_everybody(house: House) -> None:
    attempt = running(house, workers=1, ends_with=EndsWith.ALL)
    house.engine.set(attempt, SUCCEEDED, "chief-0")
    house.tick()
    assert house.job().state is JobState.ACTIVE
    house.engine.set(attempt, SUCCEEDED, "worker-0")
    house.tick()
    assert house.job().state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (1, JobState.FAILED),
        (127, JobState.FAILED),
        (6, JobState.QUEUED),
        (11, JobState.QUEUED),
        (134, JobState.QUEUED),
        (139, JobState.QUEUED),
        (137, JobState.QUEUED),
        (143, JobState.QUEUED),
        (255, JobState.QUEUED),
    ],
)
def test_the_exit_code_decides_between_failed_and_tried_again(house: House, code: int, state: JobState) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, FAILED, "worker-0", exit_code=code)
    house.tick()
    end_all(house)
    assert house.job().state is state
    assert f"The replica worker 0 exited with a non-zero status of {code}." in house.job().message


def test_whole_job_retries_are_counted_and_end(house: House) -> None:
    house.submit(retry=Retry(whole_job=2))
    for number in (1, 2, 3):
        house.tick(seconds=60)
        house.engine.set(f"p/j.{number}", FAILED, exit_code=139)
        house.tick()
        assert house.job().failures == min(number, 2)
    assert house.job().state is JobState.FAILED
    assert "It was tried 3 times." in house.job().message


@pytest.mark.parametrize(
    ("places", "retry", "attempts"),
    [
        (["step 7"] * 9, Retry(), 3),
        (["step 7", "step 8", "step 8", "step 8"], Retry(whole_job=9), 4),
        (["step 7", "step 8", "step 9", "step 10"], Retry(), 4),
        ([""] * 9, Retry(), 4),  # nothing was heard of it: nothing is known of where it was
        (["step 7"] * 9, Retry.counted(5), 6),
        (["step 7"], Retry.counted(0), 1),
    ],
)
def test_three_attempts_that_end_alike_are_enough(house: House, places: list[str], retry: Retry, attempts: int) -> None:
    house.submit(retry=retry)
    for number, place in enumerate(places, start=1):
        house.tick(seconds=600)
        house.engine.set(f"p/j.{number}", FAILED, exit_code=139, place=place)
        house.tick()
        if house.job().state is JobState.FAILED:
            break
    assert number == attempts and house.job().state is JobState.FAILED
    assert ("at the same place, 3 times in a row" in house.job().message) == (
        retry.ends_early and bool(place) and len(set(places[-3:])) == 1
    )


def test_a_retry_waits_a_little_longer_each_time(house: House) -> None:
    house.submit()
    pauses = []
    for number in (1, 2, 3):
        house.tick(seconds=100)
        house.engine.set(f"p/j.{number}", FAILED, exit_code=139)
        house.tick()
        pauses.append(house.job().not_before - house.clock.now())
        reason = house.job().waits
        assert reason is not None and reason.code == "BACKOFF"
    assert pauses == pytest.approx([0.05, 1.0, 4.0])


def test_a_lost_replica_is_tried_again(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, LOST, "worker-0")
    house.tick()
    end_all(house)
    assert (house.job().state, house.job().failures) == (JobState.QUEUED, 1)


def test_the_first_failure_is_told_not_the_last(house: House) -> None:
    attempt = running(house, workers=2)
    house.engine.set(attempt, FAILED, "worker-1", exit_code=3)
    house.tick(seconds=1)
    house.engine.set(attempt, FAILED, "chief-0", "worker-0", exit_code=1)
    house.tick(seconds=1)
    assert house.job().message.startswith("The replica worker 1 exited with a non-zero status of 3.")


def test_a_success_counts_more_than_a_failure_seen_with_it(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, FAILED, "worker-0", exit_code=1)
    house.engine.set(attempt, SUCCEEDED, "chief-0")
    house.tick()
    assert house.job().state is JobState.SUCCEEDED


def test_cancel_while_queued_goes_straight_to_cancelled(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4")
    house.submit("first", gpus=4)
    house.tick()
    house.submit(gpus=4)
    house.tick()
    house.commands.cancel("p/j", owner="u")
    house.tick()
    assert (house.job().state, house.job().tries, house.job().message) == (
        JobState.CANCELLED,
        0,
        "The job was cancelled by u.",
    )


def test_cancel_while_running_stops_it_and_waits_until_it_is_gone(house: House) -> None:
    attempt = running(house, gpus=4)
    house.commands.cancel("p/j", owner="u")
    house.tick(3)
    assert house.job().state is JobState.ACTIVE
    assert house.engine.stopping() == [attempt]
    end_all(house)
    assert house.job().state is JobState.CANCELLED


def test_cancel_during_a_retry_ends_it(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, FAILED, "worker-0", exit_code=139)
    house.tick()
    house.commands.cancel("p/j", owner="u")
    end_all(house)
    assert house.job().state is JobState.CANCELLED


def test_max_running_time_is_counted_from_running(house: House) -> None:
    running(house, limits=Limits(running_seconds=100))
    house.tick(seconds=99)
    assert not house.engine.stopping() and house.store.attempt("p/j.1").state is AttemptState.RUNNING
    house.tick(seconds=1)
    house.engine.gone("p/j.1")
    house.tick()
    assert house.job().state is JobState.CANCELLED
    assert "maxRunningTime (100s)" in house.job().message


def test_max_wait_time_ends_a_job_that_never_ran(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4")
    house.submit("first", gpus=4)
    house.submit(gpus=4, limits=Limits(wait_seconds=1800))
    house.tick(seconds=1799)
    assert house.job().state is JobState.QUEUED
    house.tick(seconds=1)
    assert house.job().state is JobState.CANCELLED
    assert "maxWaitTime (1800s)" in house.job().message


def test_max_wait_time_has_no_say_after_the_first_running(house: House) -> None:
    attempt = running(house, limits=Limits(wait_seconds=1800))
    house.engine.set(attempt, FAILED, exit_code=139)
    house.tick(seconds=5000)
    house.tick(seconds=5)
    assert house.job().state is JobState.ACTIVE and house.job().tries == 2


def test_a_stop_that_is_not_heard_is_forced_after_the_grace(house: House) -> None:
    running(house, limits=Limits(grace_seconds=30))
    house.commands.cancel("p/j", owner="u")
    house.tick(seconds=1)
    assert house.job().state is JobState.ACTIVE
    house.tick(2, seconds=41)
    assert house.job().state is JobState.CANCELLED


def test_devices_are_held_until_the_attempt_has_ended(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4")
    attempt = running(house, gpus=4)
    house.submit("next", gpus=4)
    house.commands.cancel("p/j", owner="u")
    house.tick(3)
    assert house.job("next").state is JobState.QUEUED
    house.engine.gone(attempt)
    house.tick()
    assert house.job("next").state is JobState.ACTIVE


def test_a_failure_after_a_peer_was_killed_may_pass(house: House) -> None:
    """The worker is killed and started again in place; the chief fails because its peer went away."""
    attempt = running(house, workers=1)
    killed = Note(attempt=attempt, role="worker", index=0, seen=UP, at=house.clock.now(), restarts=1)
    house.store.commit([killed], by="replica worker-0")
    house.clock.advance(2)
    house.engine.set(attempt, FAILED, "chief-0", exit_code=1)
    house.tick()
    end_all(house)
    assert (house.job().state, house.job().failures) == (JobState.QUEUED, 1)


def test_a_failure_long_after_is_the_programs_own(house: House) -> None:
    attempt = running(house, workers=1)
    killed = Note(attempt=attempt, role="worker", index=0, seen=UP, at=house.clock.now(), restarts=1)
    house.store.commit([killed], by="replica worker-0")
    house.clock.advance(COLLATERAL_SECONDS + 1)
    house.engine.set(attempt, FAILED, "chief-0", exit_code=1)
    house.tick()
    end_all(house)
    assert house.job().state is JobState.FAILED


def test_of_two_seen_down_at_once_the_lost_one_explains_the_other(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, FAILED, "chief-0", exit_code=1)
    house.engine.set(attempt, LOST, "worker-0")
    house.tick()
    assert house.job().state is JobState.QUEUED and "worker 0 was lost" in house.job().message


def test_a_job_that_was_over_before_anybody_looked_has_run(house: House) -> None:
    house.submit()
    house.tick()
    house.engine.set("p/j.1", SUCCEEDED)
    house.tick(seconds=2)
    attempt = house.store.attempt("p/j.1")
    assert (house.job().state, house.job().started_at, attempt.started_at) == (
        JobState.SUCCEEDED,
        *[house.clock.now()] * 2,
    )


def test_a_chief_that_is_done_before_its_workers_are_up_has_run(house: House) -> None:
    house.submit(workers=1)
    house.tick()
    house.engine.set("p/j.1", SUCCEEDED, "chief-0")
    house.tick()
    end_all(house)
    assert house.job().state is JobState.SUCCEEDED and house.job().started_at is not None
