"""A job run again as a rehearsal, and interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.control.submission import Submission
from stoker.core.changes import Open
from stoker.core.job import Attempt, Placement, Replica, Request
from stoker.core.states import AttemptState, ReplicaState
from tests.builders import a_spec

URL = "/stoker/v1/projects/p/jobs/j"


@pytest.fixture(autouse=True)
def job(stoker: Stoker) -> None:
    """A job that waits."""
    spec = replace(a_spec(), job_dir="gs://bucket/out")
    stoker.services.commands.submit(
        Submission("p", "j", spec, request=Request(dialect="x", body="{}"), labels={"a": "b"}, owner="u")
    )


def test_a_rehearsal_has_the_same_program(http: TestClient, stoker: Stoker) -> None:
    found = http.post(f"{URL}:rehearse", params={"copy": "again", "job_dir": "gs://bucket/drill/1"}).json()
    assert (found["name"], found["rehearsal"], found["job_dir"], found["labels"]) == (
        "again",
        True,
        "gs://bucket/drill/1",
        {},
    )
    one, other = (stoker.store.job(f"p/{name}").job for name in ("j", "again"))
    draws_as_the_job = replace(one.spec.program, env={"STOKER_SEED": "p/j"})
    assert other.spec.program == draws_as_the_job and other.spec.pool == "rehearsal/p/again" and not one.spec.pool
    shown = http.get("/v1/projects/p/jobs/again")
    assert shown.status_code == 200 and shown.json()["jobId"] == "again"


@pytest.mark.parametrize(
    ("copy", "job_dir", "status", "why"),
    [
        ("not a name", "", 400, "letters, digits, underscores"),
        ("j", "", 409, "there is a job p/j already"),
        ("again", "gs://../out", 400, "job_dir"),
    ],
)
def test_what_cannot_be_a_rehearsal(http: TestClient, copy: str, job_dir: str, status: int, why: str) -> None:
    refused = http.post(f"{URL}:rehearse", params={"copy": copy, "job_dir": job_dir})
    assert refused.status_code == status and why in refused.text


def test_of_a_job_that_is_not_there(http: TestClient) -> None:
    assert http.post("/stoker/v1/projects/p/jobs/none:rehearse", params={"copy": "x"}).status_code == 404
    assert http.post("/stoker/v1/projects/p/jobs/none:interrupt", params={"signal": "KILL"}).status_code == 404


def test_what_does_not_run_cannot_be_interrupted(http: TestClient) -> None:
    refused = http.post(f"{URL}:interrupt", params={"signal": "TERM"})
    assert refused.status_code == 409 and "does not run now" in refused.json()["error"]["message"]


def test_who_and_how_is_said(http: TestClient, stoker: Stoker) -> None:
    place = Placement(role="chief", index=0, node="local")
    replicas = (Replica(role="chief", index=0, seen=ReplicaState.UP),)
    live = Attempt(
        id="p/j.1", job="p/j", number=1, engine="local", placements=(place,), placed_at=0, replicas=replicas,
        state=AttemptState.RUNNING,
    )  # fmt: skip
    stoker.store.commit([Open(attempt=live)], by="loop")
    assert http.post(f"{URL}:interrupt", params={"signal": "HUP"}).status_code == 400
    refused = http.post(f"{URL}:interrupt", params={"signal": "KILL", "replica": "worker-7"})
    assert refused.status_code == 400 and "there are chief-0" in refused.text


def test_the_label_says_whether_it_is_resumable(http: TestClient, stoker: Stoker) -> None:
    for said, is_so in (("true", True), ("false", False), ("maybe", False)):
        http.patch(
            "/v1/projects/p/jobs/j", params={"updateMask": "labels"}, json={"labels": {"stoker-resumable": said}}
        )
        assert http.get(URL).json()["resumable"] is is_so and stoker.store.job("p/j").job.is_resumable is is_so
