"""Ids tell their parents."""

from __future__ import annotations

from stoker.core.ids import JOB_NAME, attempt_id, job_id, job_of_attempt, replica_id, split_job_id


def test_ids_and_back() -> None:
    job = job_id("proj", "job")
    attempt = attempt_id(job, 2)
    assert (job, attempt, replica_id(attempt, "worker", 0)) == ("proj/job", "proj/job.2", "proj/job.2/worker-0")
    assert job_of_attempt(attempt) == job
    assert split_job_id(job) == ("proj", "job")


def test_a_project_may_have_dots() -> None:
    assert job_of_attempt(attempt_id(job_id("example.com:proj", "j"), 1)) == "example.com:proj/j"


def test_job_names() -> None:
    assert JOB_NAME.fullmatch("a" + "x" * 127)
    assert not JOB_NAME.fullmatch("a" + "x" * 128)
    assert not any(JOB_NAME.fullmatch(name) for name in ("", "1a", "_a", "a-b", "a.b", "a/b", "ä", "a\n"))
