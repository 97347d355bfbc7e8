"""Stoker's own API against its own description: whatever fits the OpenAPI document, and what does not, is answered as it says.

Two routes are dealt with. `shutdown` is asked like any other: nothing is served here, so that its end is an empty function.
`follow` is always false: with it an answer goes on until its job has ended, and the jobs here wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from stoker.alerts.signing import new_secret
from stoker.api.app import make_app
from stoker.api.auth import user_name
from stoker.api.openapi import PATH
from stoker.app import Stoker
from stoker.core.changes import Note, Open
from stoker.core.states import AttemptState, ReplicaState, Standing
from tests.alerts.builders import a_rule
from tests.api.bodies import PACKAGE, a_job_body
from tests.builders import an_attempt

CHECKS: list[Callable[..., Any]] = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
KNOWN: tuple[Mapping[str, str], ...] = (
    {"project": "p", "name": "waits"},
    {"project": "p", "name": "ended"},
    {"project": "p", "name": "kept", "number": "1795190400-3f2a1b"},
    {"node": "virtual-0"},
    {"scheme": "gs", "bucket": "some-bucket", "name": PACKAGE.rpartition("/")[2]},
)
"""What is there, so that not every answer is 404."""

FITTING: Mapping[str, Any] = {
    "POST /stoker/v1/tokens": {"name": "ada", "projects": ["p"], "buckets": ["some-bucket"], "days": 1},
    "POST /stoker/v1/alerts": {"name": "fitting", "channel": "webhook", "target": "http://8.8.8.8/"},
    "POST /stoker/v1/projects/{project}/jobs:run": {
        "name": "run",
        "command": ["true"],
        "labels": {"a": "b"},
        "gpus": 4,
    },
    "POST /stoker/v1/projects/{project}/jobs:rehearse": a_job_body("rehearsal"),
    "POST /stoker/v1/projects/{project}/jobs:dryRun": a_job_body("dry"),
    "POST /stoker/v1/projects/{project}/jobs:dryRunCommand": {"name": "dry", "command": ["true"]},
    "POST /stoker/v1/nodes/{node}:cordon": {"why": "new driver"},
    "POST /stoker/v1/nodes/{node}:drain": {"why": "new driver", "within_seconds": 60.0},
}
"""Bodies that are accepted, for what is made up by a schema hardly ever is: accepted once, for then the name is taken."""

QUERIES: Mapping[str, Mapping[str, str]] = {
    "POST /stoker/v1/projects/{project}/jobs/{name}:interrupt": {"signal": "KILL"},
    "POST /stoker/v1/projects/{project}/jobs/{name}:rehearse": {"copy": "again"},
    "POST /stoker/v1/projects/{project}/jobs/{name}:profile": {"seconds": "1"},
    "GET /stoker/v1/projects/{project}/choose": {"parameters": "350M"},
}
"""What follows the `?`, where chance hardly ever finds anything that is accepted: asked once, of all that is there."""

EXAMPLES = 15


@pytest.fixture(scope="module")
def app(stoker: Stoker) -> ASGIApp:
    """The whole application, guard and all, under the name by which schemathesis calls it."""
    made = make_app(stoker.services, stoker.tokens, frozenset({"testserver"}))
    client = TestClient(made, headers=authorization(stoker))
    for name in ("waits", "ended", "kept"):
        stoker.services.tokens.create(name)
        rule = a_rule(name, user_name(), channel="webhook", target="http://127.0.0.1:1/", secret=new_secret())
        stoker.services.alerts.book.add(rule)
        assert (
            client.post("/stoker/v1/projects/p/jobs:run", json={"name": name, "command": ["true"]}).status_code == 200
        )
    assert client.post("/v1/projects/p/jobs/ended:cancel").status_code == 200
    stoker.loop.settle_down()
    _keep_the_place_of("p/kept", stoker)
    return made


def _keep_the_place_of(job: str, stoker: Stoker) -> None:
    """As after a failure of a job that was to be held."""
    attempt = replace(
        an_attempt(stoker.store.job(job).job, placed_at=1.0, node="local"), state=AttemptState.PLACED, engine="local"
    )
    failed = Note(
        attempt=attempt.id,
        role="chief",
        index=0,
        seen=ReplicaState.UP,
        at=2.0,
        exit_code=1,
        standing=Standing.HELD,
    )
    stoker.store.commit([Open(attempt=attempt), failed], by="loop")


@pytest.fixture(scope="module")
def schema(app: ASGIApp, stoker: Stoker) -> Any:
    """The description, as the server hands it out."""
    return schemathesis.openapi.from_asgi(PATH, app, headers=authorization(stoker))


def authorization(stoker: Stoker) -> dict[str, str]:
    return {"Authorization": f"Bearer {stoker.tokens.token}"}


def test_every_answer_is_as_described(schema: Any, stoker: Stoker) -> None:
    statuses: dict[str, set[int]] = {}
    for operation in (found.ok() for found in schema.get_all_operations()):
        seen = statuses.setdefault(operation.label, set())
        for _ in range(3):  # chance may find nothing that is accepted
            if 200 not in seen:
                _ask(operation, authorization(stoker), seen)
    unanswered = {label for label, seen in statuses.items() if 200 not in seen}
    assert not unanswered, "nothing that was tried was right"


@pytest.mark.parametrize("part", ["status", "content", "schema"])
def test_a_wrong_description_is_noticed(schema: Any, app: ASGIApp, stoker: Stoker, part: str) -> None:
    raw = deepcopy(schema.raw_schema)
    responses = raw["paths"]["/stoker/v1/nodes"]["get"]["responses"]
    match part:
        case "status":
            responses["201"] = responses.pop("200")
        case "content":
            responses["200"]["content"] = {"text/plain": {}}
        case "schema":
            responses["200"]["content"]["application/json"]["schema"] = {"type": "object", "required": ["nothing"]}
    wrong = schemathesis.openapi.from_dict(raw)
    wrong.app = app
    with pytest.raises(FailureGroup):
        _ask(wrong["/stoker/v1/nodes"]["GET"], authorization(stoker), set())


def _ask(operation: Any, headers: Mapping[str, str], seen: set[int]) -> None:
    """Ask for one operation: what fits its description, and what does not, of what is there and of what is not."""

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=st.one_of(_cases(operation)))
    def ask(case: Any) -> None:
        case.headers = {**(case.headers or {}), **headers}
        if "follow" in {parameter.name for parameter in operation.query}:
            case.query = {**(case.query or {}), "follow": "false"}
        answer = case.call()
        seen.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    ask()
    if operation.label in QUERIES:
        for path in _there(operation):
            case = operation.Case(path_parameters=path, query=QUERIES[operation.label], headers=headers)
            answer = case.call()
            seen.add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)


def _there(operation: Any) -> list[dict[str, str]]:
    """The paths of what is there."""
    names = {parameter.name for parameter in operation.path_parameters}
    return [{name: known[name] for name in names} for known in KNOWN if names and names <= known.keys()]


def _cases(operation: Any) -> list[st.SearchStrategy[Any]]:
    """Cases of an operation: of what is there, and of anything."""
    there = _there(operation)
    cases = [
        operation.as_strategy(mode, path_parameters=path)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        for path in (*there, None)
    ]
    if operation.label in FITTING:
        path = there[0] if there else {}
        cases.insert(0, operation.as_strategy(path_parameters=path, body=FITTING[operation.label]))
    return cases
