"""Asking what a job's processes do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.control.submission import Submission
from stoker.core.changes import Open
from stoker.core.job import Attempt, Placement, Replica, Request
from tests.builders import a_spec

URL = "/stoker/v1/projects/p/jobs/j"


@pytest.fixture(autouse=True)
def attempt(stoker: Stoker) -> None:
    """A job with an attempt of which nothing runs yet."""
    stoker.services.commands.submit(
        Submission("p", "j", a_spec(), request=Request(dialect="x", body="{}"), labels={}, owner="u")
    )
    place = Placement(role="chief", index=0, node="local")
    replicas = (Replica(role="chief", index=0),)
    found = Attempt(
        id="p/j.1", job="p/j", number=1, engine="local", placements=(place,), placed_at=0, replicas=replicas
    )
    stoker.store.commit([Open(attempt=found)], by="loop")


def test_what_does_not_run_cannot_be_looked_into(http: TestClient) -> None:
    refused = http.post(f"{URL}:profile", params={})
    assert refused.status_code == 409 and "does not run now" in refused.json()["error"]["message"]


@pytest.mark.parametrize("seconds", [-1, 61, "long", "nan", "inf"])
def test_seconds_are_a_number(http: TestClient, seconds: object) -> None:
    assert http.post(f"{URL}:profile", params={"seconds": seconds}).status_code == 400


def test_what_was_found(http: TestClient, stoker: Stoker) -> None:
    told: list[Any] = [
        {"id": "1", "process": 7, "command": "python", "stack": ["main (x.py:1)", 3]},
        {"id": "1", "process": 7, "samples": 10, "lines": [["main (x.py:1)", 9], ["odd"], 4]},
        {"id": "2", "process": 8, "stack": "none"},
        "no table",
        {"id": "1", "is_over": True, "has_spy": False, "trace": {"path": "/t"}},
    ]
    lines = [{"n": n, "t": 1.0, "s": "profile", "m": json.dumps(one)} for n, one in enumerate(told, 1)]
    stoker.services.logs.append("p/j.1", "chief-0", lines)
    (replica,) = http.get(f"{URL}/profiles/1").json()["replicas"]
    assert replica == {
        "replica": "chief-0",
        "is_over": True,
        "has_spy": False,
        "processes": [
            {
                "process": 7,
                "command": "python",
                "stack": ["main (x.py:1)", "3"],
                "samples": 10,
                "hot_lines": [{"line": "main (x.py:1)", "samples": 9}],
            }
        ],
        "trace": "/t",
        "trace_error": "",
    }
    assert http.get(f"{URL}/profiles/none").json() == {"id": "none", "replicas": []}
