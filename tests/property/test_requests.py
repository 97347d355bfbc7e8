"""Whatever bytes, parameters and paths are sent: the caller's mistake in the contract's shape, and never ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from tests.api.asgi import request as send
from tests.property.doors import Door, a_project, is_error, is_well_formed, quick


@pytest.fixture
def app(stoker: Stoker) -> Iterator[ASGIApp]:
    """The application itself, to which a path comes as it was sent."""
    yield make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))


# Bytes.

JUNK = st.binary(max_size=8) | st.sampled_from(
    [
        b"\xff",
        b"\x00",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xef\xbb\xbf",
        b"[" * 20_000,
        b'{"a":' * 20_000,
        b"\\ud800",
        b"1e999",
        b",",
    ]
)


@quick(60)
@given(data=st.data())
def test_no_bytes_are_our_mistake(http: TestClient, door: Door, data: st.DataObject) -> None:
    text = json.dumps(data.draw(st.sampled_from(door.bodies))).encode()
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    body = data.draw(
        st.sampled_from([text[:begin], text[begin:end], text[begin:], text[:begin] + text[end:], text + text[begin:]])
        | JUNK.map(lambda junk: text[:begin] + junk + text[begin:])
        | JUNK.map(lambda junk: text[:begin] + junk + text[end:])
    )
    for method, path in (
        ("POST", door.path("p")),
        ("PATCH", f"{door.path('p')}/j"),
        ("POST", f"{door.path('p')}/j:cancel"),
    ):
        answer = http.request(method, path, content=body)
        if answer.status_code != 200:
            is_well_formed(answer)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_other_encodings_are_refused_or_read(http: TestClient, door: Door, encoding: str) -> None:
    """JSON over HTTP is UTF-8; what is more, we may take. If we do, we have it right."""
    body = door.bodies[0]
    answer = http.post(door.path(a_project()), content=json.dumps(body).encode(encoding))
    if answer.status_code == 200:
        assert answer.json().items() >= body.items()
    else:
        is_well_formed(answer)


TYPES = [
    "",
    "application/json",
    "application/json; charset=UTF-8",
    "text/plain",
    "application/x-www-form-urlencoded",
    "é",
]
TYPES += [
    "multipart/form-data; boundary=x",
    "application/octet-stream",
    "application/json; charset=latin-1",
    "x" * 5000,
    ";",
]


@pytest.mark.parametrize("kind", TYPES, ids=range(len(TYPES)))
def test_a_type_of_content_is_json_or_refused(http: TestClient, door: Door, kind: str) -> None:
    answer = http.post(door.path(a_project()), json=door.bodies[0], headers={"Content-Type": kind.encode()})
    if "json" in kind:
        assert answer.status_code == 200
    if answer.status_code != 200:
        is_well_formed(answer)


def test_a_large_body_is_looked_at_in_time(http: TestClient, door: Door) -> None:
    """Megabytes of each kind of nonsense; a quadratic reader would be at it for minutes."""
    body = door.bodies[0]
    part = next(key for key in body if isinstance(body[key], dict) and key != "labels")
    nonsense: list[Any] = [
        {**body, part: [0] * 500_000},
        {**body, part: {f"k{n}": n for n in range(100_000)}},
        {**body, "labels": {f"k{n}": "v" for n in range(100_000)}},
        {**body, "labels": {"k": "v" * 3_000_000}},
        {**body, "unknown" * 300_000: 1},
        [body] * 3_000,
    ]
    for number, value in enumerate(nonsense):
        answer = http.post(door.path(f"big{number}"), json=value)
        is_well_formed(answer)
        assert len(answer.content) < 100_000, number


# Parameters.

NAMES = [
    "pageSize",
    "pageToken",
    "filter",
    "fields",
    "updateMask",
    "alt",
    "prettyPrint",
    "$alt",
    "key",
    "callback",
    "a" * 500,
    "",
]
VALUES = [
    "",
    "0",
    "-1",
    "1",
    "100",
    "9" * 30,
    "1e3",
    "json",
    "media",
    "true",
    "labels",
    "labels,etag",
    "*",
    "a(b",
    "jobs/jobId",
]
VALUES += [
    "state=FAILED",
    'labels.a="',
    "(" * 500,
    "jobId:j*",
    "NOT",
    "a=b OR",
    "\x00",
    "é",
    "%",
    "json;enum-encoding=int",
]
TOKENS = [
    "jobId",
    "displayName",
    "state",
    "labels.a",
    "createTime",
    "=",
    "!=",
    "<",
    ">=",
    ":",
    "AND",
    "OR",
    "NOT",
    "-",
    "(",
    ")",
]
TOKENS += [
    '"a b"',
    "'x'",
    "*",
    "j*",
    "FAILED",
    "JOB_STATE_QUEUED",
    '"2020-01-01T00:00:00Z"',
    "1",
    '"',
    "\\",
    ".",
    ",",
    "é",
]
FILTERS = st.builds(str.join, st.sampled_from([" ", ""]), st.lists(st.sampled_from(TOKENS), min_size=1, max_size=9))
PARAMETERS = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text(max_size=9)) | st.tuples(
    st.just("filter"), FILTERS
)


@quick(40)
@given(query=st.lists(PARAMETERS, max_size=6))
def test_no_parameters_are_our_mistake(http: TestClient, door: Door, query: list[tuple[str, str]]) -> None:
    path = door.path("p")
    for method, address in (("GET", path), ("GET", f"{path}/j"), ("PATCH", f"{path}/j"), ("POST", f"{path}/j:cancel")):
        answer = http.request(
            method, address, params=[(k, v.encode(errors="replace").decode()) for k, v in query], content=b"{}"
        )
        if answer.status_code != 200:
            is_well_formed(answer)


IGNORED = ["alt", "$alt", "key", "access_token", "oauth_token", "prettyPrint", "quotaUser", "callback", "uploadType"]
IGNORED += ["upload_protocol", "$.xgafv"]


@quick(20)
@given(
    query=st.lists(st.tuples(st.sampled_from(IGNORED), st.text(st.characters(codec="utf-8"))), min_size=1, max_size=5)
)
def test_what_every_method_takes_changes_nothing(http: TestClient, door: Door, query: list[tuple[str, str]]) -> None:
    path = door.path("ignored")
    http.post(path, json=door.bodies[0])
    bare = http.get(path)
    assert bare.json()[door.collection]
    assert http.get(path, params=query).json() == bare.json()


# Paths.

WORDS = [
    "v1",
    "projects",
    "p",
    "jobs",
    "j",
    "locations",
    "us-central1",
    "customJobs",
    "models",
    "operations",
    "7",
    "j:cancel",
]
ODD = [
    "",
    ".",
    "..",
    "%2e%2e",
    "%00",
    "%2F",
    "%ff",
    "%",
    "a" * 3000,
    "é",
    ":",
    ":cancel",
    "j:",
    "p:predict",
    "*",
    "%25",
    "{name}",
    "$",
]
PATHS = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(ODD) | st.text(max_size=3).map(lambda t: quote(t, errors="replace")),
    max_size=8,
)


@quick(150)
@given(
    method=st.sampled_from(["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "FETCH"]), words=PATHS
)
def test_no_path_is_our_mistake(app: ASGIApp, stoker: Stoker, method: str, words: list[str]) -> None:
    path = "/" + "/".join(["v1", "projects", *words])
    answer = send(
        app, method, quote(path, safe="/%:*${}"), stoker.tokens.token, b"" if method in ("GET", "HEAD") else b"{}"
    )
    if answer.status_code != 200 and method != "HEAD":
        is_error(answer.status_code, json.loads(answer.body))
