"""Our tables of messages against Google's own: the discovery documents that come with google-api-python-client.

Nothing there is missing here by accident, nothing is here that is not there, and every method of the v1 API is answered.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import googleapiclient.discovery_cache
import pytest
from starlette.testclient import TestClient

from stoker.api.proto_json import Any_, Enum, Field, Kind, ListOf, MapOf, Message, OpenEnum, OutputOnly
from stoker.hardware.accelerators import find_accelerator
from tests.api.bodies import a_job_body

DOCUMENTS = Path(googleapiclient.discovery_cache.__file__).parent / "documents"


@dataclass(frozen=True)
class Dialect:
    """A dialect of ours, and the document that it follows. Fields are named `Schema.field`, prefixes of schemas left out."""

    document: str
    prefixes: tuple[str, ...]
    root: str
    table: str
    read_elsewhere: Mapping[str, str] = field(default_factory=dict)  # fields kept whole → the table that reads them
    refused: Mapping[str, str] = field(default_factory=dict)  # fields that we do not have → why
    not_served: Mapping[str, str] = field(default_factory=dict)  # fields that are answered with 501 → why
    open_enums: Mapping[str, str] = field(default_factory=dict)  # enums that take more names → who knows them


ML = Dialect(
    document="ml.v1",
    prefixes=("GoogleCloudMlV1__",),
    root="GoogleCloudMlV1__Job",
    table="stoker.api.dialects.aiplatform_v1.messages:JOB",
    read_elsewhere={"Job.trainingInput": "stoker.api.dialects.aiplatform_v1.messages:TRAINING_INPUT"},
    not_served={"Job.predictionInput": "batch prediction"},
    open_enums={"AcceleratorConfig.type": "hardware/data/accelerators.csv"},
)
VERTEX = Dialect(
    document="aiplatform.v1",
    prefixes=("GoogleCloudAiplatformV1", "Google"),
    root="GoogleCloudAiplatformV1CustomJob",
    table="stoker.api.dialects.vertex_v1.messages:CUSTOM_JOB",
)
DIALECTS = [ML, VERTEX]


@dataclass(frozen=True)
class Compared:
    """A field of the document, and ours of the same name, if there is one."""

    name: str
    theirs: Mapping[str, Any]
    ours: Field | None


@cache
def read_document(name: str) -> dict[str, Any]:
    """A discovery document."""
    found: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return found


def table(address: str) -> Message:
    """A table of ours."""
    module, _, name = address.partition(":")
    found: Message = getattr(importlib.import_module(module), name)
    return found


def compared(dialect: Dialect) -> list[Compared]:
    """Every field that a request can hold, from the root down."""
    return list(_compared(dialect, dialect.root, table(dialect.table), set()))


def _compared(dialect: Dialect, schema: str, message: Message, done: set[str]) -> Iterator[Compared]:
    if schema in done:
        return
    done.add(schema)
    for name, theirs in read_document(dialect.document)["schemas"][schema]["properties"].items():
        full = f"{short(dialect, schema)}.{name}"
        ours = message.fields.get(name)
        yield Compared(full, theirs, ours)
        if full in dialect.not_served or isinstance(ours, OutputOnly):
            continue
        below = table(dialect.read_elsewhere[full]) if full in dialect.read_elsewhere else inner(ours)
        if isinstance(below, Message) and (ref := part_of(theirs).get("$ref")):
            yield from _compared(dialect, ref, below, done)


def short(dialect: Dialect, schema: str) -> str:
    """The name of a schema, as people say it."""
    for prefix in dialect.prefixes:
        schema = schema.removeprefix(prefix)
    return schema


def part_of(theirs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a list or a map of the document is of."""
    if theirs.get("type") == "array":
        return part_of(theirs["items"])
    return part_of(theirs["additionalProperties"]) if "additionalProperties" in theirs else theirs


def inner(ours: Field | None) -> Field | None:
    """What a list or a map of ours is of."""
    return inner(ours.item) if isinstance(ours, ListOf | MapOf) else ours


def messages(dialect: Dialect) -> dict[str, Message]:
    """Our tables by the schemas that they are for."""
    document, found = read_document(dialect.document), {dialect.root: table(dialect.table)}
    for field_ in compared(dialect):
        below = inner(field_.ours)
        if field_.name in dialect.read_elsewhere:
            below = table(dialect.read_elsewhere[field_.name])
        if isinstance(below, Message):
            found[part_of(field_.theirs)["$ref"]] = below
    assert found.keys() <= document["schemas"].keys()
    return found


def form(theirs: Mapping[str, Any]) -> str:
    """How a value of the document is written, in the words of our kinds."""
    kind, form_ = theirs.get("type"), theirs.get("format")
    if kind == "boolean":
        return "bool"
    if kind == "integer" or form_ in ("int64", "int32", "double"):
        return str(form_)
    return "duration" if form_ == "google-duration" else "string"


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.document)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Each dialect that follows a document."""
    found: Dialect = request.param
    return found


def test_the_walk_gets_everywhere(dialect: Dialect) -> None:
    names = {c.name.partition(".")[0] for c in compared(dialect)}
    assert len(names) >= 8, names


def test_no_field_is_missing_by_accident(dialect: Dialect) -> None:
    missing = {c.name for c in compared(dialect) if c.ours is None}
    assert missing == set(dialect.refused)


def test_no_field_is_our_own_invention(dialect: Dialect) -> None:
    schemas = read_document(dialect.document)["schemas"]
    extra = {
        f"{short(dialect, schema)}.{name}"
        for schema, message in messages(dialect).items()
        for name in message.fields.keys() - schemas[schema]["properties"].keys()
    }
    assert not extra


def test_lists_maps_and_messages_are_the_same(dialect: Dialect) -> None:
    for c in compared(dialect):
        if c.ours is None or isinstance(c.ours, OutputOnly | Any_):
            continue
        assert isinstance(c.ours, ListOf) == (c.theirs.get("type") == "array"), c.name
        assert isinstance(c.ours, MapOf) == ("additionalProperties" in c.theirs), c.name
        assert isinstance(inner(c.ours), Message) == ("$ref" in part_of(c.theirs)), c.name


def test_what_is_kept_whole_is_read_elsewhere(dialect: Dialect) -> None:
    whole = {c.name for c in compared(dialect) if isinstance(c.ours, Any_)}
    assert whole == dialect.read_elsewhere.keys() | dialect.not_served.keys()


def test_values_are_written_alike(dialect: Dialect) -> None:
    for c in compared(dialect):
        ours = inner(c.ours)
        if isinstance(ours, Kind):
            assert (ours.name, "enum" in part_of(c.theirs)) == (form(part_of(c.theirs)), False), c.name


def test_enums_have_the_same_names(dialect: Dialect) -> None:
    for c in compared(dialect):
        ours, names = inner(c.ours), part_of(c.theirs).get("enum")
        if isinstance(ours, OutputOnly):
            ours = ours.kind
        if isinstance(ours, Enum | OpenEnum):
            assert names is not None and set(ours.numbers) == set(names), c.name
            assert len(set(ours.numbers.values())) == len(names), c.name
    assert {c.name for c in compared(dialect) if isinstance(inner(c.ours), OpenEnum)} == set(dialect.open_enums)


def test_the_catalog_knows_the_gpus_of_the_document(dialect: Dialect) -> None:
    names = [
        name for c in compared(dialect) for name in part_of(c.theirs).get("enum", ()) if name.startswith("NVIDIA_")
    ]
    assert len(names) > 5
    assert [name for name in names if not (found := find_accelerator(name)) or found.name != name] == []


def test_only_what_is_of_answers_is_ignored(dialect: Dialect) -> None:
    """A field of answers in a request is ignored; one of requests must not be."""
    for c in compared(dialect):
        says_so = c.theirs.get("readOnly", False) or "Output only" in c.theirs.get("description", "")
        if c.ours is not None:
            assert isinstance(c.ours, OutputOnly) == (says_so or c.name in OF_ANSWERS), c.name


OF_ANSWERS = {"Job.trainingOutput", "Job.predictionOutput"}
"""The document does not say `Output only` of these, but `The current … result`."""


# Every method of the v1 API is answered: handled, or refused by name. So are Vertex's for custom jobs (contract, section 7).

IN_PATHS = {"projectsId": "p", "locationsId": "us-central1", "customJobsId": "7"}
BODIES = {"ml.projects.jobs.create": a_job_body()}
OF_CUSTOM_JOBS = ("create", "get", "list", "delete", "cancel")


def methods(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every method below a resource."""
    yield from resource.get("methods", {}).values()
    for below in resource.get("resources", {}).values():
        yield from methods(below)


ML_METHODS = list(methods(read_document("ml.v1")))
VERTEX_METHODS = [
    method
    for method in methods(read_document("aiplatform.v1"))
    if method["id"] in {f"aiplatform.projects.locations.customJobs.{name}" for name in OF_CUSTOM_JOBS}
]


def ask(http: TestClient, method: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Ask for a method with something that it could be asked; the status, and the error if it is one."""
    names = {name: IN_PATHS.get(name, name.removesuffix("Id")) for name in re.findall("{(.*?)}", method["flatPath"])}
    has_body = method["httpMethod"] not in ("GET", "DELETE")
    answer = http.request(
        method["httpMethod"],
        "/" + method["flatPath"].format(**names),
        json=BODIES.get(method["id"], {}) if has_body else None,
    )
    return answer.status_code, answer.json().get("error", {}) if answer.status_code >= 400 else {}


def is_unrouted(status: int, error: Mapping[str, Any]) -> bool:
    """Whether this is what an unknown path gets."""
    return status == 405 or (status == 404 and str(error.get("message", "")).startswith("there is no "))


@pytest.mark.parametrize("asked", [ML_METHODS, VERTEX_METHODS], ids=["ml.v1", "aiplatform.v1"])
def test_every_method_is_answered(http: TestClient, asked: list[Mapping[str, Any]]) -> None:
    answers = {method["id"]: ask(http, method) for method in asked}
    unrouted = [name for name, answer in answers.items() if is_unrouted(*answer)]
    assert not unrouted, unrouted
    failed = {name: answer for name, answer in answers.items() if answer[0] >= 500}
    assert all((status, error["status"]) == (501, "UNIMPLEMENTED") for status, error in failed.values()), failed


def test_what_is_no_method_is_told_apart(http: TestClient) -> None:
    assert (len(ML_METHODS), len(VERTEX_METHODS)) == (46, 5)
    for path in ("v1/projects/{projectsId}/jobs/{jobsId}", "v1/projects/{projectsId}/jobs"):
        assert is_unrouted(*ask(http, {"id": "none", "httpMethod": "DELETE", "flatPath": path}))
