"""jobs.list with a filter, the place in the queue, and what a project has."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api import listing
from stoker.app import Stoker
from stoker.core.changes import MoveJob
from stoker.core.states import JobState
from stoker.hardware.regions import regions
from tests.api.bodies import JOBS, PACKAGE, a_job_body, violations
from tests.conftest import wait_until


@pytest.fixture
def jobs(http: TestClient, stoker: Stoker) -> TestClient:
    """Five jobs: rnn_1 has failed, rnn_2 is cancelled, the others wait."""
    with stoker.services.files.write(PACKAGE) as file:
        file.write(b"x")
    for name, labels in (("rnn_1", {"team": "ml"}), ("rnn_2", {"team": "ads"}), ("cnn", {}), ("rnn_3", {"team": "ml"})):
        assert http.post(JOBS, json=a_job_body(name, labels=labels)).status_code == 200
    assert http.post(JOBS, json=a_job_body("west", region="europe-west1")).status_code == 200
    failed = MoveJob(job="p/rnn_1", before=JobState.QUEUED, after=JobState.FAILED, at=1.0, message="it broke")
    stoker.store.commit([failed], by="loop")
    http.post(f"{JOBS}/rnn_2:cancel", json={})
    stoker.loop.settle_down()
    return http


def found(http: TestClient, filter: str, **more: Any) -> list[str]:
    answer = http.get(JOBS, params={"filter": filter, **more})
    assert answer.status_code == 200, answer.text
    return [job["jobId"] for job in answer.json().get("jobs", [])]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("jobId:rnn*", ["rnn_3", "rnn_2", "rnn_1"]),
        ("job_id:rnn*", ["rnn_3", "rnn_2", "rnn_1"]),
        ("jobId:rnn* AND state:FAILED", ["rnn_1"]),
        ("jobId:rnn_1", ["rnn_1"]),
        ("jobId=rnn_1", ["rnn_1"]),
        ("jobId:*nn*", ["rnn_3", "cnn", "rnn_2", "rnn_1"]),
        ("jobId!=rnn_1 jobId:rnn*", ["rnn_3", "rnn_2"]),
        ("state=QUEUED", ["west", "rnn_3", "cnn"]),
        ("state!=QUEUED", ["rnn_2", "rnn_1"]),
        ("NOT state=QUEUED", ["rnn_2", "rnn_1"]),
        ("state:CANCEL*", ["rnn_2"]),
        ("state=FAILED OR state=CANCELLED", ["rnn_2", "rnn_1"]),
        ("state=RUNNING", []),
        ("state=PREPARING OR state=STATE_UNSPECIFIED", []),
        ("labels.team=ml", ["rnn_3", "rnn_1"]),
        ("labels.team:*", ["rnn_3", "rnn_2", "rnn_1"]),
        ("labels:team", ["rnn_3", "rnn_2", "rnn_1"]),
        ("labels.team!=ml", ["west", "cnn", "rnn_2"]),
        ('labels.team="ml" AND (state=FAILED OR jobId=cnn)', ["rnn_1"]),
        ("trainingInput.region=europe-west1", ["west"]),
        ("training_input.region=europe-west1", ["west"]),
        ('errorMessage:"*broke*"', ["rnn_1"]),
        ('createTime>"2001-01-01T00:00:00Z"', ["west", "rnn_3", "cnn", "rnn_2", "rnn_1"]),
        ("createTime<2001-01-01T00:00:00Z", []),
        ("endTime<=1970-01-01T00:00:01Z", ["rnn_1"]),
        ("endTime>1970-01-01T00:00:01Z", ["rnn_2"]),
        ("endTime>1970-01-01T01:00:01+01:00", ["rnn_2"]),
        ("startTime>1970-01-01T00:00:00Z", []),
        ("", ["west", "rnn_3", "cnn", "rnn_2", "rnn_1"]),
    ],
)
def test_a_filter_leaves_what_passes(jobs: TestClient, filter: str, expected: list[str]) -> None:
    assert found(jobs, filter) == expected


@pytest.mark.parametrize(
    ("filter", "told"),
    [
        ("jobId", "after 'jobId'"),
        ("jobId:rnn* AND", "the name of a field"),
        ("(state=FAILED", "parenthesis"),
        ("jobid=x", "no field 'jobid'"),
        ("trainingInput.args=x", "no field"),
        ("state=FAILD", "FAILED"),
        ("createTime>yesterday", "is not a time"),
        ("labels=x", "labels.KEY"),
        ("labels.a.b=x", "labels.KEY"),
    ],
)
def test_a_filter_that_cannot_be_understood_is_refused(jobs: TestClient, filter: str, told: str) -> None:
    answer = jobs.get(JOBS, params={"filter": filter})
    assert answer.status_code == 400
    assert told in violations(answer)["filter"]


def test_a_filtered_list_has_pages(jobs: TestClient) -> None:
    first = jobs.get(JOBS, params={"filter": "jobId:rnn*", "pageSize": 2}).json()
    assert [job["jobId"] for job in first["jobs"]] == ["rnn_3", "rnn_2"]
    rest = jobs.get(JOBS, params={"filter": "jobId:rnn*", "pageSize": 2, "pageToken": first["nextPageToken"]}).json()
    assert [job["jobId"] for job in rest["jobs"]] == ["rnn_1"] and "nextPageToken" not in rest
    exactly = jobs.get(JOBS, params={"filter": "jobId:rnn*", "pageSize": 3}).json()
    assert "nextPageToken" not in exactly


def test_a_page_looks_at_so_many_jobs_only(stoker: Stoker, jobs: TestClient) -> None:
    """A filter that no index helps gets an empty page with a token, and the client goes on."""
    wanted = listing.read_wanted(
        "labels.team=none", listing.Filterable(texts=frozenset(), times=frozenset(), states={})
    )
    shown = []

    class Endless:
        """A store in which every page is full."""

        def jobs(self, project: str, *, before: int | None, limit: int, which: object) -> list[Any]:
            start = 10**6 if before is None else before
            listed = stoker.store.jobs("p", limit=1)[0]
            return [type(listed)(n=start - n, job=listed.job, attempt=None) for n in range(1, limit + 1)]

    page = listing.Page(20, None)
    shown, token = listing.page_of(Endless(), "p", page, wanted, wanted.which(), lambda _: {})  # type: ignore[arg-type]
    looked_at = 10**6 - int(token)
    assert shown == [] and listing.MOST_LOOKED_AT <= looked_at < listing.MOST_LOOKED_AT + 200


def test_the_place_in_the_queue(jobs: TestClient, stoker: Stoker) -> None:
    def positions() -> dict[str, str]:
        return {job["jobId"]: job.get("jobPosition") for job in jobs.get(JOBS).json()["jobs"]}

    assert positions() == {"west": "3", "rnn_3": "2", "cnn": "1", "rnn_2": "0", "rnn_1": "0"}
    jobs.post(f"{JOBS}/cnn:cancel", json={})
    assert jobs.get(f"{JOBS}/cnn").json()["state"] == "CANCELLING"
    after = {"west": "2", "rnn_3": "1", "cnn": "?", "rnn_2": "0", "rnn_1": "0"}
    wait_until(lambda: positions() | {"cnn": "?"} == after)  # places are kept for a moment


def test_locations_are_the_regions_with_their_gpus(http: TestClient) -> None:
    names, token = [], ""
    while True:
        page = http.get("/v1/projects/p/locations", params={"pageSize": 7, "pageToken": token}).json()
        names += [location["name"] for location in page["locations"]]
        token = page.get("nextPageToken", "")
        if not token:
            break
    assert names == [f"projects/p/locations/{name}" for name, r in regions().items() if r.aip_training]
    (capability,) = http.get("/v1/projects/p/locations/us-central1").json()["capabilities"]
    assert capability["type"] == "TRAINING" and "NVIDIA_TESLA_T4" in capability["availableAccelerators"]
    assert http.get("/v1/projects/p/locations/nowhere").status_code == 404


def test_a_project_has_a_config(http: TestClient) -> None:
    assert http.get("/v1/projects/123:getConfig").json()["serviceAccountProject"] == "123"
    assert http.get("/v1/projects/p:getConfig?fields=serviceAccountProject").json() == {"serviceAccountProject": "0"}
    assert http.get("/v1/projects/p:getNothing").status_code == 404
    assert http.get("/v1/projects/p").status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/models"),
        ("GET", "/models"),
        ("GET", "/models/m"),
        ("PATCH", "/models/m?updateMask=description"),
        ("DELETE", "/models/m/versions/v"),
        ("POST", "/models/m/versions/v:setDefault"),
        ("POST", "/models/m:predict"),
        ("POST", "/models/m:setIamPolicy"),
        ("POST", ":predict"),
        ("POST", ":explain"),
        ("GET", "/operations"),
        ("POST", "/operations/o:cancel"),
        ("GET", "/locations/us-central1/operations/o"),
        ("GET", "/locations/us-central1/studies"),
        ("POST", "/locations/us-central1/studies/s/trials:suggest"),
        ("GET", "/jobs/j:getIamPolicy"),
        ("POST", "/jobs/j:setIamPolicy"),
        ("POST", "/jobs/j:testIamPermissions"),
    ],
)
def test_what_is_not_served_yet_says_so(http: TestClient, method: str, path: str) -> None:
    answer = http.request(method, f"/v1/projects/p{path}", json={} if method in ("POST", "PATCH") else None)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (501, 501, "UNIMPLEMENTED")
    assert "not served" in error["message"] or "no IAM" in error["message"]


def test_accelerators_go_by_number_too(http: TestClient, stoker: Stoker) -> None:
    with stoker.services.files.write(PACKAGE) as file:
        file.write(b"x")
    config = {"acceleratorConfig": {"type": 5, "count": 4}}
    body = a_job_body(scaleTier=5, masterType="n1-highcpu-16", masterConfig=config)
    shown = http.post(JOBS, json=body).json()["trainingInput"]
    assert shown["masterConfig"] == {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "4"}}
    assert shown["scaleTier"] == "CUSTOM"
    body["trainingInput"]["masterConfig"]["acceleratorConfig"]["type"] = 77
    assert list(violations(http.post(JOBS, json=body))) == ["master_config.accelerator_config.type"]
