"""Rules of alerts in the API: whose they are, what is shown of them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from stoker.alerts.making import Making
from stoker.alerts.running import Alerting
from stoker.app import Stoker
from tests.alerts.receivers import a_receiver
from tests.api.bodies import violations
from tests.security.table import BASE, bearer, patient

ALERTS = "/stoker/v1/alerts"
LOOPBACK = pytest.mark.parametrize("stoker", [{"alerts_networks": ["127.0.0.0/8"]}], indirect=True)


def a_body(**changes: object) -> dict[str, object]:
    return {"name": "on-call", "channel": "webhook", "target": "http://127.0.0.1:1/secret", **changes}


def making_of(stoker: Stoker) -> Making:
    """What finds alerts, while nothing runs by itself."""
    return next(part._making for part in stoker.background if isinstance(part, Alerting))


@pytest.fixture
def ada(stoker: Stoker) -> Iterator[TestClient]:
    """A user of project a."""
    token, _ = stoker.services.tokens.create("ada", projects=("a",))
    with TestClient(patient(stoker), BASE, headers=bearer(token), raise_server_exceptions=False) as client:
        yield client


@LOOPBACK
def test_a_secret_is_told_once_and_a_path_never(http: TestClient) -> None:
    made = http.post(ALERTS, json=a_body(events=["job-failed"])).json()
    assert made["secret"].startswith("whsec_") and made["target"] == "http://127.0.0.1:1/…"
    listed = http.get(ALERTS)
    assert "whsec_" not in listed.text and "secret" not in listed.text
    (rule,) = listed.json()["rules"]
    assert rule == {name: value for name, value in made.items() if name != "secret"}
    assert (rule["waiting"], rule["last_tried_at"], rule["next_try_at"]) == (0, None, None)
    assert http.post(ALERTS, json=a_body()).status_code == 409
    assert http.delete(f"{ALERTS}/on-call").json() == {"rules": []}
    assert http.delete(f"{ALERTS}/on-call").status_code == 404


@LOOPBACK
def test_rules_are_ones_own_and_an_admin_sees_all(http: TestClient, ada: TestClient) -> None:
    assert ada.post(ALERTS, json=a_body()).status_code == 200
    assert http.get(ALERTS).json()["rules"] == []
    assert [rule["owner"] for rule in http.get(f"{ALERTS}?everyone=true").json()["rules"]] == ["ada"]
    assert http.delete(f"{ALERTS}/on-call").status_code == 404
    http.post(ALERTS, json=a_body())
    admin = http.get(ALERTS).json()["rules"][0]["owner"]
    for refused in (
        ada.get(f"{ALERTS}?everyone=true"),
        ada.delete(f"{ALERTS}/on-call?owner={admin}"),
        ada.post(f"{ALERTS}/on-call:test?owner={admin}"),
    ):
        assert refused.status_code == 403
    assert [rule["owner"] for rule in ada.get(ALERTS).json()["rules"]] == ["ada"]
    assert http.delete(f"{ALERTS}/on-call?owner=ada").status_code == 200 and ada.get(ALERTS).json()["rules"] == []


@LOOPBACK
def test_a_member_asks_for_what_he_sees(ada: TestClient) -> None:
    found = violations(ada.post(ALERTS, json=a_body(events=["disk-low"], project="b")))
    assert found["events"] == "disk-low concerns the whole site, and is told to admins alone"
    assert found["project"] == "no project 'b' for this token; it opens a"


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({}, "target", "127.0.0.1 is not a public address"),
        ({"target": "http://169.254.169.254/latest"}, "target", "is not a public address"),
        ({"target": "javascript:alert(1)"}, "target", "is no scheme"),
        ({"channel": "sms"}, "channel", "there are email, slack, webhook"),
        ({"channel": "email", "target": "ada@example.org"}, "target", "this site sends no e-mail"),
        ({"name": "../x"}, "name", "cannot be a rule's name"),
        ({"events": "job-failed"}, "events", "valid list"),
        ({"events": [1]}, "events.0", "valid string"),
        ({"jobs": "a/*"}, "jobs", "fits no job's name"),
        ({"everyone": "yes"}, "everyone", "valid boolean"),
        ({"secret": "mine"}, "secret", "not permitted"),
        ({"target": "http://" + "x" * 5000}, "target", "at most 4000"),
        ({"name": "\x00"}, "name", "cannot be a rule's name"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(
    http: TestClient, changes: dict[str, object], field: str, problem: str
) -> None:
    assert problem in violations(http.post(ALERTS, json=a_body(**changes)))[field]
    assert http.get(ALERTS).json() == {"rules": []}


@LOOPBACK
def test_a_test_says_what_came_back(http: TestClient) -> None:
    with a_receiver(statuses=[200, 500]) as receiver:
        http.post(ALERTS, json=a_body(target=receiver.url()))
        assert http.post(f"{ALERTS}/on-call:test").json() == {"delivered": True, "answer": "200 OK: thanks"}
        second = http.post(f"{ALERTS}/on-call:test").json()
    assert second == {"delivered": False, "answer": "500 Internal Server Error: thanks"}
    assert json.loads(receiver.posted[0].body)["test"] is True
    assert http.post(f"{ALERTS}/none:test").status_code == 404
    for _ in range(3):
        http.post(f"{ALERTS}/on-call:test")
    answer = http.post(f"{ALERTS}/on-call:test")
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0


@LOOPBACK
def test_who_has_no_token_any_more_is_told_nothing(stoker: Stoker, ada: TestClient, http: TestClient) -> None:
    ada.post(ALERTS, json=a_body(events=["job-ended"]))
    name = {"name": "j", "command": ["true"]}
    for project, client in (("a", ada), ("b", http)):
        assert client.post(f"/stoker/v1/projects/{project}/jobs:run", json=name).status_code == 200
    stoker.services.tokens.revoke("ada")
    http.post("/v1/projects/a/jobs/j:cancel", json={})
    stoker.loop.settle_down()
    making_of(stoker).go_on()
    (rule,) = http.get(f"{ALERTS}?everyone=true").json()["rules"]
    assert rule["waiting"] == 0


@LOOPBACK
def test_a_job_that_ends_is_told_of(stoker: Stoker, ada: TestClient) -> None:
    ada.post(ALERTS, json=a_body(events=["job-ended"]))
    ada.post("/stoker/v1/projects/a/jobs:run", json={"name": "j", "command": ["true"]})
    ada.post("/v1/projects/a/jobs/j:cancel", json={})
    stoker.loop.settle_down()
    making_of(stoker).go_on()
    (rule,) = ada.get(ALERTS).json()["rules"]
    assert (rule["waiting"], rule["last_tried_at"]) == (1, None) and rule["next_try_at"] > 1e9
