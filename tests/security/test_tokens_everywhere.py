"""Nothing is reached without a token that opens it: Ray CVE-2023-48022 (ShadowRay), MLflow CVE-2026-0545, ClearML CVE-2024-24592.

The routes come from the application's own table, so a router that is added without a guard fails here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp
from starlette.websockets import WebSocketDisconnect

from stoker.app import Stoker
from tests.api.bodies import a_job_body
from tests.security.table import BASE, METHODS, ask_all, bearer, doors, patient

OUTSIDE = (
    "/",
    "//",
    "/docs",
    "/redoc",
    "/metrics",
    "/favicon.ico",
    "/static/x",
    "/stoker/replica/v1/",
    "/%2e%2e/",
    "*",
)


@pytest.fixture
def app(stoker: Stoker) -> ASGIApp:
    """Behind its guard."""
    return patient(stoker)


def state_of(stoker: Stoker) -> tuple[object, ...]:
    """All that a request could have changed, but for the log that tells of it."""
    found = [path for path in stoker.config.home.rglob("*") if path.is_file()]
    files = [path for path in found if "db" not in path.name and path.name != "audit-refused.log"]
    return stoker.store.position(), sorted(files), [path.read_bytes() for path in sorted(files)]


def shown_by(stoker: Stoker) -> dict[str, dict[str, str]]:
    """Ways to show no token that counts."""
    right = stoker.tokens.token
    return {
        "none": {},
        "wrong": bearer("x" * 43),
        "nearly": bearer(right[:-1]),
        "longer": bearer(right + "x"),
        "basic": {"Authorization": f"Basic {right}"},
        "cookie": {"Cookie": f"token={right}"},
        "other header": {
            "X-Goog-Iam-Authorization-Token": right,
            "Token": right,
            "Proxy-Authorization": f"Bearer {right}",
        },
        "an ended attempt's": bearer(stoker.tokens.of_attempt("p/other.1")),
        "a hash": bearer(stoker.tokens.sha256),
    }


def test_every_route_and_method_is_closed(stoker: Stoker, app: ASGIApp) -> None:
    """Neither is anything told: each refusal is the same, whether there is such a path or not."""
    before = state_of(stoker)
    paths = [*(door.at() for door in doors(stoker)), *OUTSIDE]
    asked = [(m, path, headers) for headers in shown_by(stoker).values() for path in paths for m in METHODS]
    answers = ask_all(app, asked)
    assert {status for status, _ in answers} == {401}, [a for a, b in zip(asked, answers, strict=True) if b[0] != 401][
        :5
    ]
    told = {
        body for (_, path, shown), (_, body) in zip(asked, answers, strict=True) if not shown and "replica" not in path
    }
    assert len(told) == 1
    assert state_of(stoker) == before


def test_a_token_in_the_address_opens_nothing(stoker: Stoker, app: ASGIApp) -> None:
    """Addresses are logged, and stand in histories: Jupyter Server CVE-2022-24757."""
    query = "&".join(f"{name}={stoker.tokens.token}" for name in ("access_token", "token", "key", "oauth_token"))
    asked = [(method, f"{door.at()}?{query}", {}) for door in doors(stoker) for method in door.methods]
    assert {status for status, _ in ask_all(app, asked)} == {401}


def test_an_attempts_token_opens_its_attempts_routes_alone(stoker: Stoker, app: ASGIApp) -> None:
    """And no other attempt's, nor those of a job whose id only begins like it."""
    before = state_of(stoker)
    shown = bearer(stoker.tokens.of_attempt("p/waits.1"))
    asked = [
        (method, path, shown)
        for door in doors(stoker)
        for path in {door.at(), door.at(number="waits.2"), door.at(number="waits.11"), door.at(project="q")}
        for method in door.methods
        if not path.startswith("/stoker/replica/v1/p/waits.1/")
    ]
    assert {status for status, _ in ask_all(app, asked)} == {401}
    assert state_of(stoker) == before


def test_an_attempts_token_opens_nothing_once_it_has_ended(stoker: Stoker, http: TestClient, app: ASGIApp) -> None:
    """There is no such attempt any more: every one of its routes says so, and nothing is written."""
    http.post("/v1/projects/p/jobs", json=a_job_body("waits"))
    with TestClient(app, BASE, headers=bearer(stoker.tokens.of_attempt("p/waits.1"))) as client:
        for door in doors(stoker):
            if door.path.startswith("/stoker/replica/"):
                body = {"seen": "UP", "lines": [{"n": 1, "t": 1.0, "s": "out", "m": "x"}]}
                statuses = {client.request(method, door.at(), json=body).status_code for method in door.methods}
                assert statuses <= {404, 409}, door.path


def test_a_websocket_is_closed_on_every_path(stoker: Stoker, app: ASGIApp) -> None:
    """jupyter-server-proxy CVE-2024-28179: the check was on HTTP alone. With the right token there is nothing to connect to."""
    for headers in ({}, bearer("x" * 43), bearer(stoker.tokens.token)):
        with TestClient(app, BASE, headers=headers) as client:
            for door in doors(stoker):
                with pytest.raises(WebSocketDisconnect), client.websocket_connect(door.at()):
                    raise AssertionError(door.path)


def test_streams_and_long_polls_are_closed(app: ASGIApp) -> None:
    """They are refused when they begin, not when the first event comes."""
    with TestClient(app, BASE) as client:
        for path in ("stream?follow=true", "logs?follow=true", "stream", "logs"):
            with client.stream("GET", f"/stoker/v1/projects/p/jobs/waits/{path}") as answer:
                assert answer.status_code == 401
        agent = {"User-Agent": "command/gcloud.ai-platform.jobs.stream-logs"}
        assert client.post("/v2/entries:list", json={}, headers=agent).status_code == 401
        assert client.post("/stoker/replica/v1/p/waits.1/chief-0/join", json={}).status_code == 401


def test_no_token_is_weak_or_chosen(stoker: Stoker, http: TestClient) -> None:
    """MLflow CVE-2025-11200: a password that was too short. Tokens are made, never chosen, and kept as hashes."""
    made = http.post("/stoker/v1/tokens", json={"name": "ada"}).json()["token"]
    assert len(made) >= 43 and len(stoker.tokens.token) >= 43
    for chosen in ({"token": "password1"}, {"password": "x"}, {"sha256": "0" * 64}):
        assert http.post("/stoker/v1/tokens", json={"name": "bob", **chosen}).status_code == 400
    kept = b"".join(path.read_bytes() for path in stoker.config.home.rglob("*") if path.is_file())
    assert made.encode() not in kept


def test_what_is_listened_on_by_default_is_loopback(stoker: Stoker) -> None:
    """TorchServe bound every address; so did Ray's dashboard agents."""
    assert stoker.config["host"] == "127.0.0.1" and stoker.config["auth"] is True
    source = (Path(__file__).parents[2] / "src").rglob("*.py")
    assert {path.name for path in source if "0.0.0.0" in path.read_text()} <= {"auth.py"}
