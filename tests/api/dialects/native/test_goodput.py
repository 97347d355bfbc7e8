"""What became of held time, in the API, at /metrics and on the command line."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.core.changes import Note
from stoker.core.states import ReplicaState
from tests.api.dialects.native.test_steps import submit, tell, window

OF_JOB, OF_ALL = "/stoker/v1/projects/p/jobs/j/goodput", "/stoker/v1/goodput"


@pytest.fixture
def trained(stoker: Stoker) -> float:
    """A job that was placed at 0, and has told of steps until 105 s."""
    submit(stoker)
    note = Note(attempt="p/j.1", role="chief", index=0, seen=ReplicaState.UP, at=2.0, addresses=("h:1",))
    stoker.store.commit([note], by="loop")
    later = {**window(101, 100), "t": 105.0, "seconds": 80.0, "waited": 30.0, "aside": 20.0, "saving": 5.0}
    tell(stoker, 1, window(1, 1), later)
    return stoker.services.commands.clock.now()


def test_of_a_job(http: TestClient, trained: float) -> None:
    found = http.get(OF_JOB).json()
    assert (found["weight"], found["is_final"], found["knows_lost"]) == ("machine", False, True)
    told = {phase: seconds for phase, seconds in found["seconds"].items() if seconds and phase != "unknown"}
    assert told == pytest.approx(
        {"starting": 5.0, "productive": 50.0, "input": 30.0, "evaluation": 15.0, "checkpoint": 5.0}
    )
    assert found["held_seconds"] == pytest.approx(trained) and found["goodput"] == pytest.approx(50.0 / trained)
    (replica,) = found["replicas"]
    assert (replica["replica"], replica["node"], replica["accelerators"]) == ("chief-0", "local", 0.0)


def test_of_many(http: TestClient, trained: float) -> None:
    for by, name in (
        ("project", "p"),
        ("job", "p/j"),
        ("node", "local"),
        ("user", "u"),
        ("accelerator", "no accelerator"),
    ):
        (row,) = http.get(f"{OF_ALL}?since=1&by={by}").json()["rows"]
        assert (row["name"], row["jobs"], row["weight"]) == (name, 1, "machine")
    for query in ("project=other", "queue=other", "since=1&until=2&project=x"):
        assert http.get(f"{OF_ALL}?since=1&{query}").json()["rows"] == []


@pytest.mark.parametrize("query", ["by=moon", "since=nan", "since=-1", "until=x"])
def test_what_cannot_be_asked(http: TestClient, query: str) -> None:
    assert http.get(f"{OF_ALL}?{query}").status_code == 400


def test_of_a_job_that_is_not_there(http: TestClient) -> None:
    assert http.get(OF_JOB).status_code == 404
