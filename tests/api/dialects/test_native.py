"""Stoker's own API: files in and out of buckets, plain commands, and what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from stoker import __version__
from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.dialects.native import RunRequest
from stoker.app import Stoker
from tests.api.asgi import Answer, request
from tests.api.bodies import ANYTHING, violations

FILES = "/stoker/v1/files"
PROJECT = "/stoker/v1/projects/p"
TRAVERSALS = (
    "../x",
    "a/../../x",
    "..",
    "a/..",
    ".",
    "./x",
    "%2e%2e/x",
    "%2e%2e%2fx",
    "..%2fx",
    "%252e%252e/x",
    "%25252e%25252e/x",
    "%252e%252e%252fx",
    "..%5cx",
    "a%5c..%5cx",
    "%5c%5chost%5cshare",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "%252fetc%252fpasswd",
    "C:/x",
    "c:%5cx",
    "x%00.txt",
    "%00",
    "x%2500",
    "a/%2e/x",
)


@pytest.fixture
def app(stoker: Stoker) -> ASGIApp:
    """The application behind its guard."""
    return make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))


def bucket(stoker: Stoker) -> Path:
    """Where the files of gs://some-bucket are."""
    return stoker.config.home / "buckets/gs/some-bucket"


def ask(stoker: Stoker, app: ASGIApp, method: str, name: str, content: bytes = b"", **how: Any) -> Answer:
    """A request for a file of gs://some-bucket, its name sent as it stands."""
    return request(app, method, f"{FILES}/gs/some-bucket/{name}", stoker.tokens.token, content, **how)


# Files.


def test_a_file_goes_in_and_comes_out(http: TestClient) -> None:
    path, content = f"{FILES}/gs/some-bucket/deep/down/x.bin", bytes(range(256)) * 20_000
    assert http.head(path).status_code == 404
    assert http.put(path, content=content).json() == {"uri": "gs://some-bucket/deep/down/x.bin", "size": len(content)}
    assert http.head(path).status_code == 200
    answer = http.get(path)
    assert answer.content == content
    assert answer.headers["Content-Disposition"] == "attachment"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_names_may_hold_what_names_hold(http: TestClient) -> None:
    for name in ("a b", "ü", "100%25", "a+b", "a%3Fb", "a;b", "...", "a..b", ".hidden", "xy:z"):
        assert http.put(f"{FILES}/gs/some-bucket/{name}", content=b"x").status_code == 200, name
        assert http.get(f"{FILES}/gs/some-bucket/{name}").content == b"x"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_no_name_leads_out_of_its_bucket(stoker: Stoker, app: ASGIApp, method: str) -> None:
    bucket(stoker).mkdir(parents=True)
    before = sorted(stoker.config.home.rglob("*"))
    for name in TRAVERSALS:
        answer = ask(stoker, app, method, name, b"written")
        assert answer.status_code in (400, 404), (name, answer)
        assert b"root:" not in answer.body
    assert sorted(stoker.config.home.rglob("*")) == before


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_no_link_leads_out_of_its_bucket(stoker: Stoker, app: ASGIApp, method: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    bucket(stoker).mkdir(parents=True)
    (bucket(stoker) / "file").symlink_to(tmp_path / "secret")
    (bucket(stoker) / "folder").symlink_to(tmp_path)
    for name in ("file", "folder/secret", "folder/new"):
        answer = ask(stoker, app, method, name, b"written")
        assert answer.status_code == 400 and b"secret" != answer.body
    assert (tmp_path / "secret").read_text() == "secret" and not (tmp_path / "new").exists()


def test_what_is_no_bucket(http: TestClient) -> None:
    for place in (
        "gs/x",
        "gs/UPPER-CASE",
        "gs/..",
        "gs/%2e%2e",
        "file/some-bucket",
        "http/some-bucket",
        "gs/-ab",
        "gs/a%00b",
    ):
        for method in ("GET", "HEAD", "PUT"):
            assert http.request(method, f"{FILES}/{place}/name").status_code in (400, 404), (method, place)


def test_a_bucket_or_a_folder_is_no_file(http: TestClient, stoker: Stoker) -> None:
    for name in ("", "a/", "a//"):
        for method in ("GET", "HEAD", "PUT"):
            assert http.request(method, f"{FILES}/gs/some-bucket/{name}").status_code in (400, 404), (method, name)
    assert not bucket(stoker).exists()
    http.put(f"{FILES}/gs/some-bucket/folder/x", content=b"x")
    assert http.get(f"{FILES}/gs/some-bucket/folder").status_code == 404
    assert http.head(f"{FILES}/gs/some-bucket/folder").status_code == 404


def test_a_client_that_goes_away_leaves_nothing(stoker: Stoker, app: ASGIApp) -> None:
    ask(stoker, app, "PUT", "folder/x", b"the old one")
    ask(stoker, app, "PUT", "folder/x", b"half of the new one", cut=True)
    ask(stoker, app, "PUT", "folder/y", b"half of another", cut=True)
    assert [path.name for path in (bucket(stoker) / "folder").iterdir()] == ["x"]
    assert (bucket(stoker) / "folder/x").read_bytes() == b"the old one"


# Plain commands.


def a_run(**changes: Any) -> dict[str, Any]:
    """A command in order."""
    return {"name": "r", "command": ["true"], **changes}


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
    assert shown["job_dir_path"] == str(bucket(stoker) / "out")
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
    "a source that is not there": (a_run(source="gs://some-bucket/x.zip"), "package_uris"),
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


# What there is.


def test_status(http: TestClient, stoker: Stoker) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    status = http.get("/stoker/v1/status").json()
    assert (status["version"], status["home"], status["engines"]) == (__version__, str(stoker.config.home), ["local"])
    assert (status["nodes"], status["jobs"], status["hold"]) == (24, {"live": 1, "running": 0}, True)
    assert str(stoker.config.home / "buckets/gs") in status["buckets"]


def test_live_jobs_of_every_project(http: TestClient) -> None:
    for project in ("p", "q"):
        http.post(f"/stoker/v1/projects/{project}/jobs:run", json=a_run())
    assert http.get("/stoker/v1/jobs").json()["jobs"] == [{"project": "p", "name": "r"}, {"project": "q", "name": "r"}]


def test_jobs_in_pages(http: TestClient) -> None:
    for n in range(5):
        http.post(f"{PROJECT}/jobs:run", json=a_run(name=f"r{n}"))
    first = http.get(f"{PROJECT}/jobs?limit=3").json()
    rest = http.get(f"{PROJECT}/jobs?limit=3&before={first['next']}").json()
    assert [job["name"] for job in first["jobs"] + rest["jobs"]] == ["r4", "r3", "r2", "r1", "r0"]
    assert rest["next"] is None
    assert http.get(f"{PROJECT}/jobs?limit=100000").json()["next"] is None


def test_a_parameter_that_is_none_is_refused_in_the_same_shape(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    for query in (
        "jobs?limit=x",
        "jobs?before=-1",
        f"jobs?before={'9' * 30}",
        "jobs/r/stream?offset=x",
        "jobs/r/stream?logs=x",
    ):
        answer = http.get(f"{PROJECT}/{query}")
        assert answer.status_code == 400 and violations(answer), query


def test_an_unknown_job_is_not_found(http: TestClient) -> None:
    for path in ("jobs/x", "jobs/x/stream", "jobs/x/story"):
        assert http.get(f"{PROJECT}/{path}").json()["error"]["status"] == "NOT_FOUND"


def test_a_wrong_method_is_told_which_there_are(http: TestClient) -> None:
    answer = http.delete("/stoker/v1/status")
    assert (answer.status_code, answer.headers["Allow"], answer.json()["error"]["code"]) == (405, "GET", 405)


def test_the_story_tells_who_did_what(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    http.post("/v1/projects/p/jobs/r:cancel", json={})
    story = http.get(f"{PROJECT}/jobs/r/story").json()["story"]
    assert [line["what"] for line in story] == ["Submit", "Cancel"]
    assert len({line["by"] for line in story}) == 1


def test_shutdown_names_what_goes_on(http: TestClient) -> None:
    assert http.post("/stoker/v1/shutdown").json() == {"running": []}
