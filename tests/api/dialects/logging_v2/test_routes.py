"""entries.list over HTTP."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import ANYTHING, violations
from tests.conftest import wait_until

GCLOUD = {"User-Agent": "google-cloud-sdk gcloud/528.0.0 command/gcloud.ai-platform.jobs.stream-logs (Linux)"}
JOB = 'resource.type="ml_job" AND resource.labels.job_id="r"'
OF_THE_PROGRAM = f'{JOB} AND resource.labels.task_name="master-replica-0"'


@pytest.fixture
def job(http: TestClient) -> str:
    """A command that waits, for the house is at rest."""
    assert http.post("/stoker/v1/projects/p/jobs:run", json={"name": "r", "command": ["true"]}).status_code == 200
    return "r"


def ask(http: TestClient, filter: str = JOB, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    """entries.list of project p."""
    body = {"resourceNames": ["projects/p"], "filter": filter, **more}
    return http.post("/v2/entries:list", json=body, headers=headers)


def told(http: TestClient, filter: str = JOB, **more: Any) -> list[str]:
    """The messages of an answer."""
    answer = ask(http, filter, **more)
    assert answer.status_code == 200, answer.text
    return [entry["jsonPayload"]["message"] for entry in answer.json().get("entries", [])]


def printed(stoker: Stoker, *texts: str, first: int = 1, at: float | None = None) -> None:
    """Lines that the job has printed."""
    now = time.time() - 10 if at is None else at
    lines = [{"n": first + n, "t": now, "s": "out", "m": text} for n, text in enumerate(texts)]
    stoker.services.logs.append("p/r.1", "chief-0", lines)


def test_the_programs_lines_between_the_services_own(http: TestClient, stoker: Stoker, job: str) -> None:
    printed(stoker, "hello", at=time.time() + 1)
    checked, queued, *_, last = told(http)
    assert checked.startswith("The job's requirements have been checked")
    assert (queued, last) == ("The job is queued.", "hello")


def test_pages(http: TestClient, stoker: Stoker, job: str) -> None:
    texts = [f"line {n}" for n in range(120)]
    printed(stoker, *texts)
    for order, expected in (("timestamp asc", texts), ("timestamp desc", texts[::-1])):
        found: list[str] = []
        sizes, token = [], ""
        while token is not None:
            answer = ask(http, OF_THE_PROGRAM, orderBy=order, pageToken=token).json()
            sizes.append(len(answer["entries"]))
            found += [entry["jsonPayload"]["message"] for entry in answer["entries"]]
            token = answer.get("nextPageToken")
        assert (found, sizes) == (expected, [50, 50, 20])
    assert told(http, OF_THE_PROGRAM, pageSize=5000) == texts
    assert "nextPageToken" not in ask(http, OF_THE_PROGRAM, pageSize=120).json()


def test_a_page_is_never_larger_than_it_is_worth(http: TestClient, stoker: Stoker, job: str) -> None:
    printed(stoker, *["x" * 60_000] * 100)
    answer = ask(http, OF_THE_PROGRAM, pageSize=1000).json()
    assert len(answer["entries"]) < 75 and answer["nextPageToken"]


def test_a_search_that_takes_long_says_where_to_go_on(http: TestClient, stoker: Stoker, job: str) -> None:
    printed(stoker, *map(str, range(60_000)), "needle")
    answer = ask(http, f"{JOB} AND textPayload:needle").json()
    assert "entries" not in answer
    again = ask(http, f"{JOB} AND textPayload:needle", pageToken=answer["nextPageToken"]).json()
    assert [entry["jsonPayload"]["message"] for entry in again["entries"]] == ["needle"]
    assert "nextPageToken" not in again


def test_of_what_is_not_there_there_is_nothing(http: TestClient, stoker: Stoker, job: str) -> None:
    printed(stoker, "x")
    assert ask(http, 'resource.labels.job_id="nobody"').json() == {}
    assert ask(http, 'resource.labels.job_id="../../server"').json() == {}
    assert ask(http, 'resource.labels.job_id="123"').json() == {}
    assert ask(http, f'{JOB} AND resource.type="other"').json() == {}
    assert ask(http, f"{JOB} AND nothing=1").json() == {}
    other = http.post("/v2/entries:list", json={"resourceNames": ["projects/q"], "filter": JOB})
    assert other.json() == {}


def test_several_projects_and_jobs_are_one_log(http: TestClient, stoker: Stoker, job: str) -> None:
    http.post("/stoker/v1/projects/q/jobs:run", json={"name": "r", "command": ["true"]})
    body = {
        "resourceNames": ["projects/p/locations/global/buckets/_Default/views/_AllLogs"],
        "projectIds": ["q"],
        "filter": 'resource.labels.job_id="r" OR resource.labels.job_id="none"',
    }
    found = http.post("/v2/entries:list", json=body).json()["entries"]
    assert {entry["resource"]["labels"]["project_id"] for entry in found} == {"p", "q"}
    times = [entry["timestamp"] for entry in found]
    assert times == sorted(times) and len(times) >= 4


def test_a_vertex_job_answers_to_both_of_its_names(http: TestClient) -> None:
    container = {"imageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest", "command": ["true"]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1, "containerSpec": container}
    body = {"displayName": "d", "jobSpec": {"workerPoolSpecs": [pool]}}
    made = http.post("/v1/projects/p/locations/us-central1/customJobs", json=body)
    assert made.status_code == 200, made.text
    number = made.json()["name"].rpartition("/")[2]
    seen = []
    for name in (number, f"custom_{number}"):
        filter = f'resource.labels.job_id="{name}" AND labels."ml.googleapis.com/job_id"="{name}"'
        found = ask(http, filter).json()["entries"]
        assert {entry["resource"]["labels"]["job_id"] for entry in found} == {name}
        assert {entry["labels"]["ml.googleapis.com/job_id"] for entry in found} == {name}
        seen.append([entry["insertId"] for entry in found])
    either = f'resource.labels.job_id="{number}" OR resource.labels.job_id="custom_{number}"'
    both = ask(http, either).json()["entries"]
    assert seen[0] == seen[1] == [entry["insertId"] for entry in both]


def test_a_partial_answer(http: TestClient, stoker: Stoker, job: str) -> None:
    body = {"resourceNames": ["projects/p"], "filter": JOB}
    answer = http.post("/v2/entries:list?fields=entries/severity&alt=json", json=body).json()
    assert answer["entries"][0] == {"severity": "INFO"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"resourceNames": []}, "resource_names"),
    ({"resourceNames": ["organizations/1"]}, "resource_names[0]"),
    ({"resourceNames": ["projects/a b"]}, "resource_names"),
    ({"resourceNames": "projects/p"}, "resource_names"),
    ({"orderBy": "severity"}, "order_by"),
    ({"pageSize": -1}, "page_size"),
    ({"pageSize": "many"}, "page_size"),
    ({"pageToken": "x"}, "page_token"),
    ({"pageToken": "WyJhIiwgMSwgMiwgM10="}, "page_token"),
    ({"filter": "((("}, "filter"),
    ({"filter": ""}, "filter"),
    ({"filter": 'resource.type="ml_job"'}, "filter"),
    ({"filter": f"{JOB} AND timestamp>yesterday"}, "filter"),
    ({"filter": f"{JOB} AND severity>LOUD"}, "filter"),
    ({"filter": " OR ".join(f"resource.labels.job_id=j{n}" for n in range(30))}, "filter"),
    ({"filtre": "x"}, "list_log_entries_request"),
]


@pytest.mark.parametrize(("changes", "field"), REFUSED)
def test_what_is_refused(http: TestClient, job: str, changes: dict[str, Any], field: str) -> None:
    answer = http.post("/v2/entries:list", json={"resourceNames": ["projects/p"], "filter": JOB, **changes})
    assert answer.status_code == 400
    assert list(violations(answer)) == [field]


def test_a_token_goes_with_its_own_question(http: TestClient, stoker: Stoker, job: str) -> None:
    token = ask(http, pageSize=1).json()["nextPageToken"]
    assert ask(http, pageToken=token, pageSize=1).status_code == 200
    assert ask(http, pageToken=token, orderBy="timestamp desc").status_code == 400
    assert ask(http, OF_THE_PROGRAM, pageToken=token).status_code == 400


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(body=ANYTHING)
def test_any_body_is_answered_or_refused(http: TestClient, body: Any) -> None:
    assert http.post("/v2/entries:list", content=json.dumps(body)).status_code in (200, 400)


def test_a_follower_is_told_of_new_lines_at_once_and_of_the_end(http: TestClient, stoker: Stoker, job: str) -> None:
    """It asks for nothing of the last five seconds; that is for logs in which lines come late."""
    later = f'{OF_THE_PROGRAM} AND timestamp>="2026-01-01T00:00:00Z" AND timestamp<"2026-01-01T00:00:01Z"'
    with ThreadPoolExecutor() as threads:
        began = time.monotonic()
        asking = threads.submit(ask, http, later, GCLOUD)
        wait_until(lambda: time.monotonic() - began > 0.5)
        assert not asking.done()
        printed(stoker, "news")
        news = asking.result(timeout=10).json()["entries"]
        assert [entry["jsonPayload"]["message"] for entry in news] == ["news"]
        nothing = f'{later} AND insertId>"z"'
        asking = threads.submit(ask, http, nothing, GCLOUD)
        http.post("/v1/projects/p/jobs/r:cancel", json={})
        stoker.loop.settle_down()
        assert asking.result(timeout=10).json() == {}
    assert told(http, later) == []
    assert told(http, later, headers=GCLOUD) == ["news"]
