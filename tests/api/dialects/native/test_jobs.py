"""Lists of jobs, and one in full."""

from __future__ import annotations

from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import a_run, violations

PROJECT = "/stoker/v1/projects/p"


def test_live_jobs_of_every_project(http: TestClient) -> None:
    for project in ("p", "q"):
        http.post(f"/stoker/v1/projects/{project}/jobs:run", json=a_run())
    assert http.get("/stoker/v1/jobs").json()["jobs"] == [{"project": "p", "name": "r"}, {"project": "q", "name": "r"}]


def test_jobs_in_pages(http: TestClient) -> None:
    for n in range(5):
        http.post(f"{PROJECT}/jobs:run", json=a_run(name=f"r{n}"))
    first = http.get(f"{PROJECT}/jobs?limit=3").json()
    rest = http.get(f"{PROJECT}/jobs?limit=3&before={first['next']}").json()
    assert [job["name"] for job in first["jobs"] + rest["jobs"]] == ["r4", "r3", "r2", "r1", "r0"]
    assert rest["next"] is None
    assert http.get(f"{PROJECT}/jobs?limit=100000").json()["next"] is None


def test_a_parameter_that_is_none_is_refused_in_the_same_shape(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    for query in (
        "jobs?limit=x",
        "jobs?before=-1",
        f"jobs?before={'9' * 30}",
        "jobs/r/stream?after=x",
        "jobs/r/stream?logs=x",
    ):
        answer = http.get(f"{PROJECT}/{query}")
        assert answer.status_code == 400 and violations(answer), query


def test_an_unknown_job_is_not_found(http: TestClient) -> None:
    for path in (
        "jobs/x",
        *(f"jobs/x/{part}" for part in ("stream", "logs", "story", "explain", "metrics", "artifacts")),
    ):
        assert http.get(f"{PROJECT}/{path}").json()["error"]["status"] == "NOT_FOUND"


def test_the_exit_code_is_told_when_it_has_ended(http: TestClient, stoker: Stoker) -> None:
    assert http.post(f"{PROJECT}/jobs:run", json=a_run()).json()["exit_code"] is None
    http.post("/v1/projects/p/jobs/r:cancel", json={})
    stoker.loop.settle_down()
    found = http.get(f"{PROJECT}/jobs/r").json()
    assert (found["state"], found["exit_code"], found["up"], found["reason"]) == ("CANCELLED", 1, None, None)
