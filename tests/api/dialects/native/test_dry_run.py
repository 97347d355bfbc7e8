"""What would come of a job. The server holds everything: what is free would be had at once, were it not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import JOBS, PACKAGE, a_job_body, a_run, custom, violations

PROJECT = "/stoker/v1/projects/p"
T4S = {"masterType": "n1-highcpu-16", "masterConfig": {"acceleratorConfig": {"count": "4", "type": "NVIDIA_TESLA_T4"}}}


def dry_run(http: TestClient, body: Any, **params: str) -> httpx.Response:
    """Of a v1 Job."""
    return http.post(f"{PROJECT}/jobs:dryRun", json=body, params={"uploads": PACKAGE, **params})


@pytest.fixture
def freed(stoker: Stoker) -> Stoker:
    """The same server as if it were not paused, for its outlooks."""
    outlooks: Any = stoker.services.outlooks
    outlooks.hold = False
    return stoker


def test_a_job_that_is_free_to_go(http: TestClient, freed: Stoker) -> None:
    position = freed.store.position()
    found = dry_run(http, custom(**T4S, workerType="n1-highmem-8", workerCount="2")).json()
    assert (found["name"], found["is_free"], found["reason"], found["ahead"]) == ("j", True, "", [])
    places = [(place["role"], place["replicas"], len(place["devices"])) for place in found["places"]]
    assert ("chief", 1, 4) in places and sum(count for role, count, _ in places if role == "worker") == 2
    assert found["limit_seconds"] == 604800 and found["lasts"]["known_runs"] == 0
    assert freed.store.position() == position and http.get(f"{JOBS}/j").status_code == 404


def test_what_it_costs(http: TestClient, freed: Stoker) -> None:
    cost = dry_run(http, custom(**T4S)).json()["cost"]
    assert cost["usd_per_hour"] > 1 and cost["at_most_usd"] == pytest.approx(168 * cost["usd_per_hour"], rel=1e-4)
    assert cost["middle_usd"] is None and cost["price_as_of"]
    unpriced = http.post(f"{PROJECT}/jobs:dryRunCommand", json=a_run(gpus=1)).json()["cost"]
    assert unpriced["usd_per_hour"] is None and "no price is known" in unpriced["notes"][0]


def test_a_job_that_would_wait(http: TestClient, freed: Stoker) -> None:
    for n in range(2):
        http.post(f"{PROJECT}/jobs:run", json=a_run(f"first_{n}", gpus=4, gpu_type="T4", workers=9)).raise_for_status()
    found = http.post(f"{PROJECT}/jobs:dryRunCommand", json=a_run("next", gpus=4, gpu_type="T4", workers=9)).json()
    assert found["is_free"] is False and found["ahead"] == ["p/first_0", "p/first_1"]
    assert found["starts"]["at"]["middle"] > freed.services.commands.clock.now() and found["reason"]


def test_on_a_server_that_is_paused_nothing_starts(http: TestClient) -> None:
    found = http.post(f"{PROJECT}/jobs:dryRunCommand", json=a_run()).json()
    assert (found["is_free"], found["starts"]["at"]["middle"]) == (False, None) and "paused" in found["starts"]["basis"]


def test_it_is_refused_as_its_submission_would_be(http: TestClient) -> None:
    for body in (a_job_body(), custom(masterType="n1-x"), custom(**T4S, workerCount="99"), {}, [], a_job_body("a-b")):
        refused, said = http.post(JOBS, json=body), http.post(f"{PROJECT}/jobs:dryRun", json=body)
        assert (said.status_code, said.json()) == (refused.status_code, refused.json()) and said.status_code >= 400
    for body in (a_run(gpus=8), a_run(gpu_type="t5", gpus=1), a_run(source="gs://some-bucket/x.zip"), a_run(queue="x")):
        refused, said = (
            http.post(f"{PROJECT}/jobs:run", json=body),
            http.post(f"{PROJECT}/jobs:dryRunCommand", json=body),
        )
        assert (said.status_code, said.json()) == (refused.status_code, refused.json()) and said.status_code == 400


def test_a_name_that_is_taken(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run()).raise_for_status()
    again = http.post(f"{PROJECT}/jobs:dryRunCommand", json=a_run())
    assert (again.status_code, list(violations(again))) == (409, ["name"])
    again = dry_run(http, a_job_body("r"))
    assert (again.status_code, list(violations(again))) == (409, ["job.job_id"])


def test_only_what_would_be_uploaded_may_be_missing(http: TestClient) -> None:
    assert dry_run(http, a_job_body()).status_code == 200
    missing = dry_run(http, a_job_body(packageUris=[PACKAGE, "gs://some-bucket/other.tar.gz"]))
    assert list(violations(missing)) == ["package_uris"] and "other.tar.gz" in missing.text


def test_a_rehearsal_would_have_nodes_of_its_own(http: TestClient, freed: Stoker) -> None:
    found = dry_run(http, custom(**T4S), rehearse="true").json()
    assert found["rehearsal"] is True and found["is_free"] is True
    assert found["places"][0]["node"].startswith("rehearsal-") and found["cost"]["usd_per_hour"] is None
    assert not [node for node in http.get("/stoker/v1/nodes").json()["nodes"] if node["name"].startswith("rehearsal-")]
