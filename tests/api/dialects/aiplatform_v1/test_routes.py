"""AI Platform v1 over HTTP: create, get, list, cancel, patch, and every way to get them wrong."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import JOBS, PACKAGE, a_job_body, custom, violations


@pytest.fixture(autouse=True)
def package(stoker: Stoker) -> None:
    """The package of the bodies is there."""
    with stoker.services.files.write(PACKAGE) as file:
        file.write(b"a package")


def created(http: TestClient, name: str = "j", **changes: Any) -> dict[str, Any]:
    """A job that was created."""
    answer = http.post(JOBS, json=a_job_body(name, **changes))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_create_answers_the_queued_job(http: TestClient) -> None:
    shown = created(http, labels={"team": "ml"})
    assert (shown["jobId"], shown["state"], shown["labels"]) == ("j", "QUEUED", {"team": "ml"})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", shown["createTime"])
    assert re.fullmatch(r"[A-Za-z0-9+/_=-]+", shown["etag"])
    assert not {"startTime", "endTime", "errorMessage"} & set(shown)
    assert http.get(f"{JOBS}/j").json() == shown | {"jobPosition": "1"}


def test_an_id_is_taken_for_good(http: TestClient, stoker: Stoker) -> None:
    created(http)
    for _ in range(2):
        again = http.post(JOBS, json=a_job_body())
        assert (again.status_code, again.json()["error"]["status"]) == (409, "ALREADY_EXISTS")
        assert list(violations(again)) == ["job.job_id"]
        assert "stays taken" in again.json()["error"]["hint"]
        http.post(f"{JOBS}/j:cancel", json={})
        stoker.loop.settle_down()
    assert http.post("/v1/projects/q/jobs", json=a_job_body()).status_code == 200


def test_a_missing_package_fails_the_request_and_not_the_job(http: TestClient) -> None:
    answer = http.post(JOBS, json=a_job_body(packageUris=[PACKAGE, "gs://some-bucket/missing.tar.gz"]))
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "missing.tar.gz" in violations(answer)["package_uris"]
    assert http.get(f"{JOBS}/j").status_code == 404


def test_what_no_node_could_hold_is_refused_with_what_there_is(http: TestClient) -> None:
    four_v100 = {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_V100"}}
    answer = http.post(JOBS, json=custom(masterType="n1-standard-32", masterConfig=four_v100))
    assert answer.json()["error"]["status"] == "FAILED_PRECONDITION"
    assert "This site has" in violations(answer)["scale_tier"]
    assert "stoker rehearse" in answer.json()["error"]["hint"]


def test_what_leads_out_of_its_bucket_is_refused_at_submission(http: TestClient) -> None:
    for uri in ("gs://some-bucket/../x", "gs://some-bucket/a/%2e%2e/x", "gs://some-bucket/a\\b", "/a/../b"):
        assert list(violations(http.post(JOBS, json=a_job_body(jobDir=uri)))) == ["job_dir"]
        assert list(violations(http.post(JOBS, json=a_job_body(packageUris=[uri])))) == ["package_uris"]


def test_what_is_no_project(http: TestClient) -> None:
    for project in ("-p", "p!", "p" * 129, "é"):
        assert list(violations(http.post(f"/v1/projects/{project}/jobs", json=a_job_body()))) == ["parent"]
        assert list(violations(http.get(f"/v1/projects/{project}/jobs"))) == ["parent"]


def test_a_project_is_an_id_or_a_number(http: TestClient) -> None:
    for project in ("my-project", "123456", "example.com:my-project"):
        assert http.post(f"/v1/projects/{project}/jobs", json=a_job_body()).status_code == 200


@pytest.mark.parametrize("method", ["get", "patch", "cancel"])
def test_a_job_that_never_was(http: TestClient, method: str) -> None:
    answer = {
        "get": lambda: http.get(f"{JOBS}/never_was"),
        "patch": lambda: http.patch(f"{JOBS}/never_was?updateMask=labels", json={"labels": {}}),
        "cancel": lambda: http.post(f"{JOBS}/never_was:cancel", json={}),
    }[method]()
    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert list(violations(answer)) == ["name"]


# Malformed requests.


MALFORMED = [
    b"{",
    b'{"jobId": }',
    b"\xff\xfe",
    b"NaN",
    b'{"jobId": Infinity}',
    b"[" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"1" * 5000,
    b"[]",
    b'"a job"',
    b"null",
    b"7",
]


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/j:cancel", f"{JOBS}/j?updateMask=labels"])
def test_a_malformed_body_is_the_callers_mistake(http: TestClient, path: str) -> None:
    created(http)
    for body in MALFORMED:
        answer = http.request("PATCH" if "updateMask" in path else "POST", path, content=body)
        assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT"), body[:20]
        assert violations(answer)


def test_a_body_beyond_the_limit(http: TestClient) -> None:
    answer = http.post(JOBS, content=b" " * (10 << 20) + b"{}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)


def test_an_unknown_path_or_verb_is_not_found(http: TestClient) -> None:
    created(http)
    for request in (
        f"DELETE {JOBS}/j",
        f"PUT {JOBS}",
        "GET /v1/projects/p/job",
        "GET /v1",
        f"GET {JOBS}/",
        f"POST {JOBS}/j",
        f"POST {JOBS}/j:fly",
        f"GET {JOBS}/j/k",
        f"GET {JOBS}/a%2Fb",
    ):
        answer = http.request(*request.split())
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, 404), request
        assert answer.json()["error"]["status"] == "NOT_FOUND"


def test_iam_is_in_the_contract_but_not_here(http: TestClient) -> None:
    for request in (f"GET {JOBS}/j:getIamPolicy", f"POST {JOBS}/j:setIamPolicy", f"POST {JOBS}/j:testIamPermissions"):
        answer = http.request(*request.split())
        assert (answer.status_code, answer.json()["error"]["status"]) == (501, "UNIMPLEMENTED"), request


def test_the_parameters_that_every_method_takes_are_ignored(http: TestClient) -> None:
    query = "alt=json&prettyPrint=false&key=k&quotaUser=u&callback=c&uploadType=x&upload_protocol=y&$.xgafv=2"
    assert http.post(f"{JOBS}?{query}", json=a_job_body()).status_code == 200
    assert http.get(f"{JOBS}/j?{query}").status_code == 200


def test_a_partial_answer(http: TestClient) -> None:
    answer = http.post(f"{JOBS}?fields=jobId,trainingInput/region", json=a_job_body())
    assert answer.json() == {"jobId": "j", "trainingInput": {"region": "us-central1"}}
    assert http.get(f"{JOBS}?fields=jobs/jobId").json() == {"jobs": [{"jobId": "j"}]}
    assert list(violations(http.get(f"{JOBS}/j?fields=a("))) == ["fields"]


def test_what_is_refused_for_its_mask_has_not_been_done(http: TestClient) -> None:
    assert list(violations(http.post(f"{JOBS}?fields=a(", json=a_job_body()))) == ["fields"]
    assert http.get(f"{JOBS}/j").status_code == 404
    before = created(http)
    assert http.patch(f"{JOBS}/j?updateMask=labels&fields=a(", json={"labels": {"a": "1"}}).status_code == 400
    assert http.get(f"{JOBS}/j").json() == before | {"jobPosition": "1"}


# List.


def test_a_project_without_jobs_is_an_empty_table(http: TestClient) -> None:
    assert http.get(JOBS).json() == {}


def test_pages_newest_first(http: TestClient) -> None:
    for n in range(5):
        created(http, f"p{n}")
    seen, query = [], "?pageSize=2"
    while query:
        page = http.get(JOBS + query).json()
        seen += [job["jobId"] for job in page["jobs"]]
        assert len(page["jobs"]) <= 2
        query = f"?pageSize=2&pageToken={page['nextPageToken']}" if "nextPageToken" in page else ""
    assert seen == ["p4", "p3", "p2", "p1", "p0"]
    assert http.get("/v1/projects/q/jobs").json() == {}


def test_a_page_has_20_and_no_more_than_100(http: TestClient) -> None:
    for n in range(102):
        created(http, f"p{n}")
    for query, size in (("", 20), ("?pageSize=0", 20), ("?pageSize=100", 100), ("?pageSize=1000", 100)):
        assert len(http.get(JOBS + query).json()["jobs"]) == size
    last = http.get(f"{JOBS}?pageSize=100").json()["nextPageToken"]
    rest = http.get(f"{JOBS}?pageSize=100&pageToken={last}").json()
    assert (len(rest["jobs"]), "nextPageToken" in rest) == (2, False)


def test_a_page_size_or_token_that_is_none(http: TestClient) -> None:
    for wrong in ("-1", "x", "²", "1e9", "9" * 40, "٣", "1;2"):
        assert list(violations(http.get(JOBS, params={"pageSize": wrong}))) == ["page_size"]
        assert list(violations(http.get(JOBS, params={"pageToken": wrong}))) == ["page_token"]


# Cancel.


def test_a_queued_job_is_cancelled_at_once(http: TestClient, stoker: Stoker) -> None:
    created(http)
    assert http.post(f"{JOBS}/j:cancel", json={}).json() == {}
    stoker.loop.settle_down()
    shown = http.get(f"{JOBS}/j").json()
    assert (shown["state"], bool(shown["errorMessage"]), "startTime" in shown) == ("CANCELLED", True, False)
    assert shown["endTime"]
    assert http.post(f"{JOBS}/j:cancel", content=b"").json() == {}  # of no effect on one that has ended
    assert http.get(f"{JOBS}/j").json() == shown


def test_cancel_takes_an_empty_body(http: TestClient) -> None:
    created(http)
    assert list(violations(http.post(f"{JOBS}/j:cancel", json={"why": "x"}))) == ["body"]
    assert http.get(f"{JOBS}/j").json()["state"] == "QUEUED"


# Patch.


def test_patch_replaces_the_labels_and_renews_the_etag(http: TestClient) -> None:
    before = created(http, labels={"a": "1", "b": "2"})
    after = http.patch(f"{JOBS}/j?updateMask=labels", json={"labels": {"c": "3"}}).json()
    assert after["labels"] == {"c": "3"}
    assert after["etag"] != before["etag"]
    assert http.get(f"{JOBS}/j").json() == after
    assert "labels" not in http.patch(f"{JOBS}/j?updateMask=labels", json={}).json()


def test_an_etag_guards_the_patch(http: TestClient) -> None:
    first = created(http)["etag"]
    body = {"labels": {"a": "1"}, "etag": first}
    assert http.patch(f"{JOBS}/j?updateMask=labels,etag", json=body).status_code == 200
    late = http.patch(f"{JOBS}/j?updateMask=labels,etag", json=body)
    assert (late.status_code, late.json()["error"]["status"]) == (409, "ABORTED")
    assert http.patch(f"{JOBS}/j?updateMask=labels", json=body).status_code == 200  # not in the mask: not looked at


def test_an_etag_of_another_job_is_another(http: TestClient) -> None:
    created(http)
    assert http.post(JOBS, json=a_job_body("k")).status_code == 200
    body = {"labels": {"a": "1"}, "etag": http.get(f"{JOBS}/k").json()["etag"]}
    answer = http.patch(f"{JOBS}/j?updateMask=labels,etag", json=body)
    assert (answer.status_code, answer.json()["error"]["status"]) == (409, "ABORTED")


def test_a_job_that_no_program_could_be_told_of_is_too_large(http: TestClient) -> None:
    answer = http.post(JOBS, json=a_job_body(args=["x" * 1000] * 100))
    assert (answer.status_code, answer.json()["error"]["status"]) == (413, "OUT_OF_RANGE")
    assert "TF_CONFIG" in answer.json()["error"]["message"]
    named = http.post(JOBS, json=custom(masterType="n" * 10_000))
    assert len(named.content) < 2_000 and list(violations(named)) == ["master_type"]


def test_an_etag_that_is_none_is_another(http: TestClient) -> None:
    created(http)
    for stale in ("", "x", "é", "MTA=", base64.b64encode(b"9" * 5000).decode()):
        answer = http.patch(f"{JOBS}/j?updateMask=etag,labels", json={"etag": stale, "labels": {}})
        assert answer.status_code == 409, stale


def test_an_etag_alone_changes_nothing_but_itself(http: TestClient) -> None:
    before = created(http, labels={"a": "1"})
    after = http.patch(f"{JOBS}/j?updateMask=etag", json={"etag": before["etag"]}).json()
    assert (after["labels"], after["etag"] != before["etag"]) == ({"a": "1"}, True)


def test_a_mask_names_labels_and_etag_only(http: TestClient) -> None:
    created(http)
    for mask in ("", "state", "labels,state", "trainingInput.region", "*", "labels.a"):
        assert list(violations(http.patch(f"{JOBS}/j", params={"updateMask": mask}, json={}))) == ["update_mask"]


def test_patch_looks_at_labels_as_create_does(http: TestClient) -> None:
    created(http)
    answer = http.patch(f"{JOBS}/j?updateMask=labels", json={"labels": {"A": "1"}, "lables": {}})
    assert list(violations(answer)) == ["job", "job.labels.A"]


def test_labels_of_an_ended_job_may_be_changed(http: TestClient, stoker: Stoker) -> None:
    created(http)
    http.post(f"{JOBS}/j:cancel", json={})
    stoker.loop.settle_down()
    after = http.patch(f"{JOBS}/j?updateMask=labels", json={"labels": {"a": "1"}}).json()
    assert (after["state"], after["labels"]) == ("CANCELLED", {"a": "1"})
