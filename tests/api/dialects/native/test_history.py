"""What the site has done, as it takes to replay it."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.dialects.native.schemas.history import History
from stoker.app import Stoker, build
from stoker.config import read_config
from stoker.core.site import Queue, Quota, Site
from stoker.gpu.drivers.fake import FakeDriver
from stoker.simulate.past import site_of
from tests.api.bodies import a_run
from tests.api.test_openapi import conforms

PROJECT = "/stoker/v1/projects/p"


def test_before_anything_there_is_nothing_but_rules_and_machines(http: TestClient, stoker: Stoker) -> None:
    found = http.get("/stoker/v1/history").json()
    assert found["jobs"] == [] and found["is_whole"] is True and found["now"] > 0
    assert site_of(found["site"]) == stoker.services.commands.rules.site
    assert len(found["nodes"]) == 24 and {node["accelerators"] for node in found["nodes"]} >= {0, 4}


def test_jobs_of_every_project_with_what_they_asked_for(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run("one", gpus=4, workers=2, priority=7, resumable=True))
    http.post("/stoker/v1/projects/q/jobs:run", json=a_run("two"))
    answer = http.get("/stoker/v1/history").json()
    conforms(History, answer)
    one, two = sorted(answer["jobs"], key=lambda job: str(job["id"]))
    assert (one["id"], two["id"]) == ("p/one", "q/two")
    assert (one["priority"], one["resumable"], one["state"], one["ended_at"]) == (7, True, "QUEUED", None)
    assert [(g["role"], g["count"], g["accelerator_milli"]) for g in one["groups"]] == [
        ("chief", 1, 4000),
        ("worker", 2, 4000),
    ]


def test_since_and_limit(http: TestClient, stoker: Stoker) -> None:
    for name in ("one", "two", "three"):
        http.post(f"{PROJECT}/jobs:run", json=a_run(name))
        http.post(f"/v1/projects/p/jobs/{name}:cancel", json={})
        stoker.loop.settle_down()
    everything = http.get("/stoker/v1/history").json()
    assert [job["id"] for job in everything["jobs"]] == ["p/one", "p/two", "p/three"] and everything["is_whole"]
    newest = http.get("/stoker/v1/history", params={"limit": 1}).json()
    assert [job["id"] for job in newest["jobs"]] == ["p/three"] and not newest["is_whole"]
    assert http.get("/stoker/v1/history", params={"since": everything["now"] + 1}).json()["jobs"] == []
    assert http.get("/stoker/v1/history", params={"since": "x"}).status_code == 400


def test_rehearsals_are_left_out(http: TestClient, stoker: Stoker) -> None:
    http.post(f"{PROJECT}/jobs:rehearse", json={"jobId": "r", "trainingInput": {}})
    found = http.get("/stoker/v1/history").json()
    assert not found["jobs"] and len(found["nodes"]) == 24


def test_every_rule_of_a_site_comes_back(tmp_path: Path) -> None:
    text = 'policy = "las"\n[policy_options]\nlevels = 3\n[preemption]\nvictims = "any"\n[queues.a]\nweight = 2\n'
    (tmp_path / "site.toml").write_text(text)
    made = build(
        read_config({}, flags={"home": str(tmp_path), "hold": True}), url="http://127.0.0.1:1", driver=FakeDriver()
    )
    app = make_app(made.services, made.tokens, allowed_hosts("127.0.0.1", 7077), needs_token=False)
    with TestClient(app, "http://127.0.0.1:7077") as client:
        found = site_of(client.get("/stoker/v1/history").json()["site"])
    made.store.close()
    assert (
        found == made.services.commands.rules.site
        and found.queues["a"].weight == 2
        and found.policy_options == {"levels": 3}
    )


def test_quotas_too() -> None:
    from dataclasses import asdict

    quota = Quota(nominal_milli=4000, borrowing_milli=None, lending_milli=0)
    site = Site(queues={"a": Queue(name="a", cohort="c", quotas={"NVIDIA_TESLA_T4@us-central1": quota})})
    assert site_of(asdict(site)) == site
