"""A server that stands by answers what reads, and refuses what writes with the address of who leads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.services import Services
from stoker.app import Stoker
from stoker.core.errors import Unavailable


@pytest.fixture
def waiting(stoker: Stoker) -> Iterator[TestClient]:
    """A client of a server that does not lead."""
    stoker.store.lead("http://127.0.0.1:1")
    with a_client(stoker, replace(stoker.services, leads=lambda: False)) as client:
        yield client


def a_client(stoker: Stoker, services: Services) -> TestClient:
    app = make_app(services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {stoker.tokens.token}"}
    return TestClient(app, "http://127.0.0.1:7077", headers=headers, raise_server_exceptions=False)


def test_what_reads_is_answered(waiting: TestClient) -> None:
    status = waiting.get("/stoker/v1/status").json()
    assert (status["leads"], status["leader"]) == (False, "http://127.0.0.1:1")
    assert waiting.get("/v1/projects/p/jobs").status_code == 200
    assert waiting.post("/v2/entries:list", json={}).status_code == 400  # it is read, and asks for a filter


def test_what_writes_is_refused_with_who_leads(waiting: TestClient, stoker: Stoker) -> None:
    position = stoker.store.position()
    for method, path in (
        ("POST", "/v1/projects/p/jobs"),
        ("POST", "/v1/projects/p/jobs/j:cancel"),
        ("PATCH", "/v1/projects/p/jobs/j"),
        ("DELETE", "/v1/projects/p/locations/l/customJobs/1"),
        ("PUT", "/upload/storage/v1/b/bucket/o"),
        ("POST", "/stoker/v1/projects/p/jobs:run"),
    ):
        refused = waiting.request(method, path, json={})
        error = refused.json()["error"]
        assert (refused.status_code, error["status"]) == (503, "UNAVAILABLE"), path
        assert "http://127.0.0.1:1 leads" in error["message"] and "http://127.0.0.1:1" in error["hint"]
    assert stoker.store.position() == position


def test_a_stranger_learns_nothing(waiting: TestClient) -> None:
    refused = waiting.post("/v1/projects/p/jobs", headers={"Authorization": "Bearer wrong"})
    assert refused.status_code == 401 and "127.0.0.1:1" not in refused.text


def test_who_leads_cannot_be_told_while_the_database_is_gone(stoker: Stoker) -> None:
    class Gone:
        def leader(self) -> None:
            raise Unavailable("the database cannot be read: it is gone")

    services = replace(stoker.services, leads=lambda: False, store=Gone())  # type: ignore[arg-type]
    with a_client(stoker, services) as client:
        refused = client.post("/v1/projects/p/jobs", json={})
    assert (
        refused.status_code == 503 and refused.json()["error"]["message"] == "the database cannot be read: it is gone"
    )
