"""Plain commands, and rehearsals."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from stoker.api.dialects.native.schemas.requests import RunRequest
from stoker.app import Stoker
from tests.api.bodies import ANYTHING, a_run, violations

PROJECT = "/stoker/v1/projects/p"


def test_a_command_is_a_job(http: TestClient) -> None:
    shown = http.post(
        f"{PROJECT}/jobs:run",
        json=a_run(gpus=4, gpu_type="t4", workers=2, env={"A": "b"}, labels={"a": "b"}, job_dir="gs://some-bucket/out"),
    ).json()
    assert (shown["state"], shown["replicas"], shown["labels"]) == ("QUEUED", 3, {"a": "b"})
    assert [(m["role"], m["count"], m["accelerators"], m["accelerator"]) for m in shown["machines"]] == [
        ("chief", 1, 4, "NVIDIA_TESLA_T4"),
        ("worker", 2, 4, "NVIDIA_TESLA_T4"),
    ]
    assert http.get(f"{PROJECT}/jobs/r").json() == shown
    assert http.get("/v1/projects/p/jobs/r").json()["state"] == "QUEUED"  # the v1 API shows it too, without an input


def test_where_its_files_are_is_told(http: TestClient, stoker: Stoker) -> None:
    shown = http.post(f"{PROJECT}/jobs:run", json=a_run(job_dir="gs://some-bucket/out")).json()
    assert shown["job_dir_path"] == str(stoker.config.home / "buckets/gs/some-bucket/out")
    assert http.post(f"{PROJECT}/jobs:run", json=a_run(name="s")).json()["job_dir_path"] == ""


WRONG_RUNS: dict[str, tuple[Any, str]] = {
    "no table": ([], "body"),
    "nothing": ({}, "command"),
    "no name": ({"command": ["true"]}, "name"),
    "a bad name": (a_run(name="a-b"), "name"),
    "no command": (a_run(command=[]), "command"),
    "a command that is a text": (a_run(command="true"), "command"),
    "a NUL in the command": (a_run(command=["a\x00b"]), "command.0"),
    "a NUL in a variable": (a_run(env={"A": "\x00"}), "env.A"),
    "an unknown field": (a_run(comand=["x"]), "comand"),
    "too many GPUs": (a_run(gpus=65), "gpus"),
    "a GPU that is none": (a_run(gpus=1, gpu_type="t5"), "gpu_type"),
    "a label in upper case": (a_run(labels={"A": "b"}), "job.labels.A"),
    "a job dir that is no URI": (a_run(job_dir="out"), "job_dir"),
    "a job dir that leads out": (a_run(job_dir="gs://some-bucket/../x"), "job_dir"),
    "a source that is not there": (a_run(source="gs://some-bucket/x.zip"), "source"),
    "a source that leads out": (a_run(source="gs://some-bucket/../x.zip"), "source"),
    "more than any node has": (a_run(gpus=8), "gpus"),
    "an endless limit": (a_run(max_running_seconds=1e300), "max_running_seconds"),
}


def test_a_command_that_is_wrong_is_refused(http: TestClient) -> None:
    for case, (body, path) in WRONG_RUNS.items():
        answer = http.post(f"{PROJECT}/jobs:run", json=body)
        assert answer.status_code == 400, case
        assert path in violations(answer), (case, violations(answer))


def test_a_variable_needs_a_name(http: TestClient) -> None:
    for env in ({"": "x"}, {"A=B": "x"}, {"A\x00": "x"}):
        assert http.post(f"{PROJECT}/jobs:run", json=a_run(env=env)).status_code == 400


def test_half_a_character_is_refused(http: TestClient) -> None:
    for part in (
        '"command": ["\\ud800"]',
        '"command": ["x"], "env": {"\\ud800": "x"}',
        '"command": ["x"], "labels": {"\\ud800": ""}',
    ):
        answer = http.post(f"{PROJECT}/jobs:run", content=f'{{"name": "r", {part}}}')
        assert answer.status_code == 400, part


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(sorted(RunRequest.model_fields)), value=ANYTHING)
def test_no_command_is_our_mistake(http: TestClient, field: str, value: Any) -> None:
    answer = http.post(f"{PROJECT}/jobs:run", content=json.dumps({**a_run(), field: value}))
    assert answer.status_code < 500, answer.text


def test_a_name_is_taken_for_good(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    again = http.post(f"{PROJECT}/jobs:run", json=a_run())
    assert (again.status_code, list(violations(again))) == (409, ["name"])


def test_a_rehearsal_has_nodes_of_its_own(http: TestClient) -> None:
    shown = http.post(f"{PROJECT}/jobs:run", json=a_run(gpus=8, workers=3, rehearse=True)).json()
    assert shown["rehearsal"] is True
    nodes = [node for node in http.get("/stoker/v1/nodes").json()["nodes"] if node["name"].startswith("rehearsal-")]
    assert [node["accelerators"] for node in nodes] == [8] * 4
