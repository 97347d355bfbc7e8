"""The description of Stoker's own API is whole, and every answer is what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from stoker import __version__
from stoker.api.dialects.native.schemas import (
    alerts,
    choose,
    costs,
    drill,
    errors,
    events,
    files,
    findings,
    goodput,
    health,
    history,
    jobs,
    outlook,
    overview,
    profile,
    queue,
    samples,
    server,
    steps,
    tokens,
)
from stoker.app import Stoker
from tests.api.bodies import PACKAGE, a_job_body, a_run

PROJECT = "/stoker/v1/projects/p"


@pytest.fixture
def described(http: TestClient) -> dict[str, Any]:
    """The description."""
    found: dict[str, Any] = http.get("/stoker/v1/openapi.json").json()
    return found


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation, with its method and path."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_it_holds_every_route_of_ours_and_nothing_else(described: dict[str, Any]) -> None:
    assert (described["info"]["title"], described["info"]["version"]) == ("Stoker", __version__)
    assert all(path.startswith("/stoker/v1/") for path in described["paths"])
    ids = [operation["operationId"] for _, operation in operations(described)]
    assert len(ids) == len(set(ids)) >= 18 and {"get_logs", "explain_job", "list_artifacts"} <= set(ids)


def test_every_route_has_its_words(described: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in described["tags"]}
    for name, operation in operations(described):
        assert operation["summary"] and operation["description"], name
        assert "\n" not in operation["summary"] and set(operation["tags"]) <= tags and len(operation["tags"]) == 1, name


def test_every_parameter_is_described_with_an_example(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        for parameter in operation.get("parameters", []):
            assert parameter["description"] and parameter["schema"]["examples"], f"{name} {parameter['name']}"
        in_path = {part[1:-1] for part in name.split("/") if part.startswith("{")}
        in_path = {part.partition("}")[0] for part in in_path}
        assert in_path <= {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}, name


def test_every_answer_and_body_has_an_example(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        assert {"200", "401", "403", "421"} <= set(operation["responses"]) and "422" not in operation["responses"]
        for status, answer in operation["responses"].items():
            assert answer["description"], (name, status)
            contents = answer.get("content", {})
            assert len(contents) == (0 if name.startswith("head") and status == "200" else 1), (name, status)
            for content in contents.values():
                assert content["example"] not in (None, ""), (name, status)
            if status != "200":
                error = contents["application/json"]["example"]["error"]
                assert error["code"] == int(status) and error["message"], (name, status)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert content["example"], name


def test_every_field_is_described(described: dict[str, Any]) -> None:
    bodies = [op["requestBody"]["content"] for _, op in operations(described) if "requestBody" in op]
    inline = [c["schema"] for content in bodies for c in content.values() if "properties" in c["schema"]]
    for schema in [*described["components"]["schemas"].values(), *inline]:
        for name, field in schema["properties"].items():
            is_named = "$ref" in json.dumps(field) or "const" in field
            assert is_named or (field.get("description") and "examples" in field), f"{schema['title']}.{name}"
        assert schema["description"], schema["title"]


def conforms(kind: Any, answer: Any) -> None:
    """Whether an answer has exactly the fields of its declaration, each of its type."""
    TypeAdapter(kind).validate_python(answer, strict=True, extra="forbid")


def test_every_answer_is_as_declared(http: TestClient, stoker: Stoker) -> None:
    http.put(f"/stoker/v1/files/{PACKAGE.replace('://', '/')}", content=b"x")
    http.post(f"{PROJECT}/jobs:run", json=a_run("first", gpus=4, workers=9, job_dir="gs://some-bucket/out"))
    http.post(f"{PROJECT}/jobs:rehearse", json=a_job_body("second")).raise_for_status()
    http.post("/v1/projects/p/jobs/second:cancel", json={})
    stoker.loop.settle_down()
    conforms(files.Uploaded, http.put("/stoker/v1/files/gs/some-bucket/out/x", content=b"x").json())
    conforms(jobs.JobDetails, http.post(f"{PROJECT}/jobs:run", json=a_run("third")).json())
    conforms(server.Node, http.post("/stoker/v1/nodes/virtual-0:drain", json={"within_seconds": 60.0}).json())
    conforms(outlook.DryRun, http.post(f"{PROJECT}/jobs:dryRun", json=a_job_body("fourth")).json())
    conforms(outlook.DryRun, http.post(f"{PROJECT}/jobs:dryRunCommand", json=a_run("fourth", gpus=4)).json())
    asked = {"name": "a", "channel": "webhook", "target": "http://8.8.8.8/"}
    conforms(alerts.MadeAlertRule, http.post("/stoker/v1/alerts", json=asked).json())
    for kind, path in (
        (alerts.AlertRules, "/stoker/v1/alerts"),
        (server.Status, "/stoker/v1/status"),
        (server.Settings, "/stoker/v1/settings"),
        (server.Nodes, "/stoker/v1/nodes"),
        (server.Node, "/stoker/v1/nodes/virtual-0"),
        (health.NodeHealth, "/stoker/v1/nodes/virtual-0/health"),
        (overview.Overview, "/stoker/v1/overview"),
        (costs.Pools, "/stoker/v1/pools"),
        (costs.Costs, "/stoker/v1/costs"),
        (queue.TheQueue, "/stoker/v1/queue"),
        (history.History, "/stoker/v1/history"),
        (goodput.Goodput, "/stoker/v1/goodput?by=node"),
        (jobs.LiveJobs, "/stoker/v1/jobs"),
        (jobs.JobList, f"{PROJECT}/jobs"),
        (jobs.Artifacts, f"{PROJECT}/jobs/first/artifacts"),
        *(
            (kind, f"{PROJECT}/jobs/{name}{path}")
            for name in ("first", "second", "third")
            for kind, path in (
                (jobs.JobDetails, ""),
                (jobs.Story, "/story"),
                (outlook.Explanation, "/explain"),
                (jobs.Metrics, "/metrics"),
                (goodput.GoodputOfJob, "/goodput"),
                (findings.Findings, "/findings"),
            )
        ),
    ):
        conforms(kind, http.get(path).json())
    stoker.services.logs.append("p/second.1", "chief-0", [{"n": 1, "t": 1.0, "s": "out", "m": "x"}])
    told = http.get(f"{PROJECT}/jobs/second/stream").text.splitlines()
    for line in told:
        conforms(events.StateEvent | events.LogEvent | events.EndEvent, json.loads(line))
    assert {json.loads(line)["kind"] for line in told} == {"state", "log", "end"}
    for path in ("/stoker/v1/projects/p/jobs/none", f"{PROJECT}/jobs?limit=x", "/stoker/v1/none"):
        conforms(errors.ErrorAnswer, http.get(path).json())
    conforms(server.Farewell, http.post("/stoker/v1/shutdown").json())


def test_the_examples_are_as_declared_too(described: dict[str, Any]) -> None:
    kinds = {
        kind.__name__: kind
        for module in (
            alerts,
            choose,
            costs,
            drill,
            errors,
            files,
            findings,
            goodput,
            health,
            history,
            jobs,
            outlook,
            overview,
            profile,
            queue,
            samples,
            server,
            steps,
            tokens,
        )
        for kind in vars(module).values()
        if isinstance(kind, type)
    }
    held = 0
    for _, operation in operations(described):
        for content in operation["responses"]["200"].get("content", {}).values():
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            if name:
                conforms(kinds[name], content["example"])
                held += 1
    assert held >= 12
