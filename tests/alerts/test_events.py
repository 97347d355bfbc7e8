"""Which lines of the story are told of, and in which words."""

from __future__ import annotations

import pytest

from stoker.alerts.events import EVENTS, alerts_of, check_events
from stoker.core.alerts import Alert
from stoker.core.changes import Cancel, Change, CordonNode, MoveAttempt, MoveJob, job_of
from stoker.core.errors import BadSpec
from stoker.core.node import Cordon
from stoker.core.states import AttemptState, Cause, JobState
from stoker.store.base import Line
from stoker.store.rows import encode


def told(change: Change) -> list[Alert]:
    line = Line(n=7, at=50.0, by="loop", job=job_of(change), change=change)
    return list(alerts_of(line, lambda job: f"owner of {job}"))


def move(after: JobState, message: str = "") -> MoveJob:
    return MoveJob(job="p/j", before=JobState.ACTIVE, after=after, at=5.0, message=message)


def stop(cause: Cause | None, detail: str = "") -> MoveAttempt:
    before, after = AttemptState.RUNNING, AttemptState.STOPPING
    return MoveAttempt(attempt="p/j.2", before=before, after=after, at=5.0, cause=cause, detail=detail)


def test_a_job_that_fails() -> None:
    found = told(move(JobState.FAILED, "exit 3"))
    assert [(a.event, a.subject, a.at, a.title, a.text, a.job, a.owner) for a in found] == [
        ("job-failed", "p/j", 50.0, "p/j has failed", "exit 3", "p/j", "owner of p/j"),
        ("job-ended", "p/j", 50.0, "p/j has failed", "exit 3", "p/j", "owner of p/j"),
    ]


@pytest.mark.parametrize(
    ("after", "title"), [(JobState.SUCCEEDED, "p/j has succeeded"), (JobState.CANCELLED, "p/j was cancelled")]
)
def test_a_job_that_ends_otherwise(after: JobState, title: str) -> None:
    assert [(a.event, a.title) for a in told(move(after))] == [("job-ended", title)]


def test_what_a_program_printed_is_cut_and_can_be_written_down() -> None:
    (found, _) = told(move(JobState.FAILED, "\ud800" + "x" * 5000))
    assert len(found.text) == 2000 and found.text.startswith("?x") and encode(found)


def test_a_job_that_hangs() -> None:
    (found,) = told(stop(Cause.HUNG, "no output for an hour"))
    assert (found.event, found.job, found.title, found.text) == (
        "job-hung",
        "p/j",
        "p/j hangs",
        "no output for an hour",
    )


@pytest.mark.parametrize(("node", "title"), [("n0", "Node n0 is cordoned"), ("pool:t4", "Pool t4 is cordoned")])
def test_a_node_or_pool_that_is_cordoned(node: str, title: str) -> None:
    (found,) = told(CordonNode(node=node, cordon=Cordon(why="3 failures", by="loop", at=5.0)))
    assert (found.event, found.subject, found.title, found.text) == (
        "node-cordoned",
        node,
        title,
        "3 failures (by loop)",
    )
    assert (found.job, found.owner) == ("", "")


@pytest.mark.parametrize(
    "change", [move(JobState.QUEUED), stop(Cause.PREEMPTED), stop(None), Cancel(job="p/j", why="", at=1.0)]
)
def test_nothing_else(change: Change) -> None:
    assert told(change) == []


def test_who_asks_for_no_events_gets_those_that_matter_of_jobs() -> None:
    found = check_events([], is_admin=False)
    assert "job-failed" in found and "job-ended" not in found
    assert not any(event.of_site for event in EVENTS if event.name in found)


def test_events_are_asked_for_by_their_names_and_those_of_the_site_by_admins() -> None:
    assert check_events(["disk-low", "job-failed", "disk-low"], is_admin=True) == ("disk-low", "job-failed")
    with pytest.raises(BadSpec, match="did you mean job-failed") as found:
        check_events(["job-fail", "disk-low"], is_admin=False)
    assert "told to admins alone" in found.value.violations[1].description
    with pytest.raises(BadSpec, match="there are job-failed, "):
        check_events(["\x00" * 500], is_admin=True)
