"""What Stoker says about a job, from its story."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from stoker.api.dialects.logging_v2.service_lines import ServiceLine, service_lines
from stoker.core.changes import Ask, Change, Explain, Note, Relabel
from stoker.core.convention import Convention
from stoker.core.job import Reason
from stoker.core.states import Cause, ReplicaState, Standing
from stoker.store.base import Line
from tests.builders import House, a_house, a_job


def told(house: House, name: str = "j") -> list[tuple[str, str]]:
    """Severity and text of all lines of a job."""
    job = house.job(name)
    return [(line.severity, line.text) for line in service_lines(job, house.store.story(job.id))]


def texts(*changes: Change, convention: Convention = Convention.AI_PLATFORM) -> list[str]:
    """What is said of these changes."""
    job = a_job(workers=1)
    job = replace(job, spec=replace(job.spec, convention=convention))
    story = [Line(n=n, at=float(n), by="u", job="p/j", change=change) for n, change in enumerate(changes, 1)]
    return [line.text for line in service_lines(job, story)]


def test_a_job_that_succeeds(house: House) -> None:
    house.submit(gpus=1, workers=1)
    house.tick()
    house.engine.set("p/j.1", ReplicaState.UP)
    house.tick()
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED, "chief-0")
    house.tick(3)
    house.engine.gone("p/j.1")
    house.tick()
    assert told(house) == [
        ("INFO", "The job's requirements have been checked: it needs 2 × 1 T4."),
        ("INFO", "The job is queued."),
        ("INFO", "Being provisioned, attempt 1: 2 replicas on n0."),
        ("INFO", "Waiting for the program to start."),
        ("INFO", "The job is running: all 2 replicas are up."),
        ("INFO", "Teardown has begun: the program has completed."),
        ("INFO", "Teardown is done."),
        ("INFO", "The job has succeeded."),
    ]


def test_a_job_that_fails_says_why_as_an_error(house: House) -> None:
    house.submit()
    house.tick()
    house.engine.set("p/j.1", ReplicaState.UP)
    house.tick()
    house.engine.set("p/j.1", ReplicaState.FAILED, "chief-0", exit_code=3)
    house.tick(3)
    assert told(house)[-4:] == [
        ("WARNING", "master-replica-0 exited with status 3."),
        ("INFO", "Teardown has begun: a replica has failed."),
        ("INFO", "Teardown is done."),
        ("ERROR", f"The job has failed. {house.job().message}"),
    ]


def test_a_job_that_waits_says_why(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:1")
    house.submit("first", gpus=1)
    house.tick()
    house.submit("second", gpus=1)
    house.tick()
    house.commands.cancel("p/second", owner="ann")
    house.tick()
    waiting, asked, gone = told(house, "second")[2:]
    assert waiting == ("INFO", "The job waits: needs 1 × 1 T4, and not enough is free now.")
    assert asked == ("INFO", "Cancellation was asked for. The job was cancelled by ann.")
    assert gone == ("INFO", "The job was cancelled. The job was cancelled by ann.")


def test_a_job_that_crashes_is_queued_again(house: House) -> None:
    house.submit()
    house.tick()
    house.engine.set("p/j.1", ReplicaState.UP)
    house.tick()
    house.engine.set("p/j.1", ReplicaState.FAILED, "chief-0", exit_code=139)
    house.tick(3)
    found = [text for severity, text in told(house) if severity == "WARNING"]
    assert found[0] == "master-replica-0 exited with status 139."
    assert found[1].startswith("The job is queued again, to be tried once more. The replica master 0 exited")


def test_what_replicas_do() -> None:
    def note(seen: ReplicaState, exit_code: int | None = None, restarts: int = 0, message: str = "") -> Note:
        values = {"exit_code": exit_code, "restarts": restarts, "message": message}
        return Note(attempt="p/j.1", role="worker", index=1, seen=seen, at=1.0, **values)  # type: ignore[arg-type]

    assert texts(note(ReplicaState.UP), note(ReplicaState.STARTING), note(ReplicaState.SUCCEEDED, 0)) == []
    assert texts(note(ReplicaState.UP, restarts=2)) == ["worker-replica-1 is started again in place (2)."]
    once = note(ReplicaState.UP, restarts=1)
    assert texts(note(ReplicaState.UP), once, once, note(ReplicaState.UP, restarts=2), once) == [
        "worker-replica-1 is started again in place (1).",
        "worker-replica-1 is started again in place (2).",
    ]
    assert len(texts(once, replace(once, index=2), replace(once, attempt="p/j.2"))) == 3
    assert texts(note(ReplicaState.LOST)) == ["worker-replica-1 was lost: it answers no more."]
    assert texts(note(ReplicaState.FAILED, 1), convention=Convention.VERTEX) == ["workerpool1-1 exited with status 1."]


def test_what_the_scheduler_does() -> None:
    ask = Ask(attempt="p/j.1", cause=Cause.PREEMPTED)
    assert texts(ask) == ["The scheduler stops this attempt: its resources go to another job."]
    assert texts(Relabel(job="p/j", labels={})) == []


def test_moments_grow() -> None:
    reason = Reason(code="X", text="x")
    story = [
        Line(n=n, at=at, by="u", job="p/j", change=Explain(job="p/j", reason=reason))
        for n, at in enumerate([5.0, 5.0, 4.0, 9.0], 1)
    ]
    found = [line.moment for line in service_lines(a_job(), story)]
    assert found == [5_000_000, 5_000_001, 5_000_002, 9_000_000]


def test_what_was_told_stays_as_it_was(house: House) -> None:
    house.submit()
    before: list[ServiceLine] = []
    for step in range(8):
        house.tick(seconds=1)
        if step == 2:
            house.engine.set("p/j.1", ReplicaState.UP)
        if step == 5:
            house.engine.set("p/j.1", ReplicaState.SUCCEEDED, "chief-0")
        now = service_lines(house.job(), house.store.story("p/j"))
        assert now[: len(before)] == before
        before = now
    assert all(a.moment < b.moment for a, b in pairwise(before)) and len(before) == 8


def test_what_a_sign_means_is_told_with_its_line_and_what_to_do() -> None:
    note = Note(
        attempt="p/j.1",
        role="worker",
        index=0,
        seen=ReplicaState.FAILED,
        at=1.0,
        exit_code=1,
        sign="CUDA_OOM",
        evidence="CUDA out of memory.",
    )
    exited, sign, fix = texts(note)
    assert exited == "worker-replica-0 exited with status 1."
    assert sign == "worker-replica-0: the GPU has too little memory for it: CUDA out of memory."
    assert fix.startswith("What to do: use a smaller batch")
    held = replace(note, seen=ReplicaState.UP, standing=Standing.HELD)
    assert texts(held)[0] == "worker-replica-0 exited with status 1; its place is kept for whoever looks."
    quiet = replace(held, standing=Standing.QUIET, evidence="no output for 60 s")
    assert texts(quiet) == ["worker-replica-0 stands still: no output for 60 s."]
