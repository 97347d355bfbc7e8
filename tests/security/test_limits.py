"""How much may be sent: bodies, depths, names, parts (BentoML CVE-2025-54381, CVE-2024-9056). None of it is our mistake."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api.services import LARGEST_BODY_BYTES
from stoker.app import Stoker
from stoker.client.job_file import read_job_file
from stoker.core.errors import BadSpec
from tests.api.bodies import a_job_body
from tests.security.table import BASE, bearer, doors, patient

DEEP = 100_000
JSON = {"Content-Type": "application/json"}


def takers(stoker: Stoker) -> list[tuple[str, str]]:
    """Every route that may take a body, with the methods that bring one; files take any bytes."""
    return [
        (method, door.at())
        for door in doors(stoker)
        for method in sorted(door.methods & {"POST", "PUT", "PATCH"})
        if "/files/" not in door.path and "upload" not in door.path and not door.path.endswith("shutdown")
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"jobId":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b"1" * 5_000,
        b"-" + b"9" * 100_000,
        b"1e999999",
        b'{"a": 1e400}',
        b"\xff\xfe\x00",
        b'"\\ud800"',
        b"{" + b'"a":1,' * 20_000 + b'"a":1}',
        b"null",
        b"[]",
        b'"x"',
        b" " * 100_000,
    ],
    ids=lambda body: f"{body[:12]!r}-{len(body)}",
)
def test_no_body_is_our_mistake_on_any_route(stoker: Stoker, body: bytes) -> None:
    shown, attempts = bearer(stoker.tokens.token), bearer(stoker.tokens.of_attempt("p/waits.1"))
    with TestClient(patient(stoker), BASE, raise_server_exceptions=False) as client:
        for method, path in takers(stoker):
            headers = JSON | (attempts if path.startswith("/stoker/replica/") else shown)
            answer = client.request(method, path, content=body, headers=headers)
            assert answer.status_code in (200, 400, 404, 405, 409, 413, 415, 501), (method, path, answer.text)


def test_a_body_has_an_end(stoker: Stoker) -> None:
    with TestClient(patient(stoker), BASE, headers=bearer(stoker.tokens.token) | JSON) as client:
        answer = client.post("/v1/projects/p/jobs", content=b" " * (LARGEST_BODY_BYTES + 1))
        assert answer.status_code == 413
        assert LARGEST_BODY_BYTES <= 10 << 20


def test_what_is_packed_for_the_way_is_unpacked_in_blocks(stoker: Stoker) -> None:
    """A gzip bomb as an upload: it goes to the disk, and never to memory; as JSON it is not unpacked at all."""
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join(packed.compress(bytes(1 << 20)) for _ in range(64)) + packed.flush()
    with TestClient(patient(stoker), BASE, headers=bearer(stoker.tokens.token)) as client:
        headers = {"Content-Encoding": "gzip"}
        address = "/upload/storage/v1/b/some-bucket/o?uploadType=media&name=bomb"
        made = client.post(address, content=body, headers=headers)
        assert made.json()["size"] == str(64 << 20)
        answer = client.post("/v1/projects/p/jobs", content=body, headers=headers | JSON)
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {f"k{n}": "v" for n in range(65)}},
        {"labels": {"k": "v" * 64}},
        {"labels": {"k" * 64: "v"}},
        {"args": ["x" * (256 << 10)]},
        {"jobDir": "gs://some-bucket/" + "x" * 2000},
        {"packageUris": ["gs://some-bucket/x"] * 101},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_job_has_so_much_and_no_more(http: TestClient, changes: dict[str, Any]) -> None:
    assert http.post("/v1/projects/p/jobs", json=a_job_body("x", **changes)).status_code in (400, 413)


def test_a_command_has_so_much_and_no_more(http: TestClient) -> None:
    path, fine = "/stoker/v1/projects/p/jobs:run", {"name": "x", "command": ["true"]}
    for changes, status in (
        ({"command": ["x"] * 10_001}, 400),
        ({"command": ["x" * (2 << 20)]}, 413),
        ({"env": {"A": "x" * (2 << 20)}}, 413),
        ({"workers": 10_001}, 400),
        ({"gpus": 65}, 400),
        ({"labels": {f"k{n}": "v" for n in range(65)}}, 400),
        ({"name": "x" * 129}, 400),
    ):
        assert http.post(path, json={**fine, **changes}).status_code == status, changes.keys()


def test_a_batch_has_so_many_calls_and_no_more(http: TestClient) -> None:
    part = "--x\r\nContent-Type: application/http\r\n\r\nGET /storage/v1/b/some-bucket HTTP/1.1\r\n\r\n\r\n"
    for calls, status in ((100, 200), (101, 400), (20_000, 400)):
        headers = {"Content-Type": "multipart/mixed; boundary=x"}
        answer = http.post("/batch/storage/v1", content=part * calls + "--x--\r\n", headers=headers)
        assert answer.status_code == status, calls


@pytest.mark.parametrize(
    "boundary", ["x" * 60_000, "", "'", "\t", "=?utf-8?q?x?=", "a" * 70 + "=" * 70, "*0=x; boundary*1=y"]
)
def test_no_boundary_is_our_mistake(http: TestClient, boundary: str) -> None:
    for path, kind in (
        ("/batch/storage/v1", "mixed"),
        ("/upload/storage/v1/b/some-bucket/o?uploadType=multipart", "related"),
    ):
        headers = {"Content-Type": f"multipart/{kind}; boundary={boundary}"}
        body = b"--" + boundary.encode() + b"\r\n" + b"X: y\r\n" * 50_000
        started = time.monotonic()
        assert http.post(path, content=body, headers=headers).status_code in (400, 413)
        assert time.monotonic() - started < 5


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &a\n  b: *a\n",
        "a: &a {x: 1}\nb:\n  <<: *a\n",
        "[" * 5_000,
        "- " * 5_000 + "x",
        "{a: " * 3_000,
        "? " * 3_000,
        "x: [" + "1," * 20_000 + "1]",
        "x: " + "y" * (1 << 20),
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "x: !!binary AAAA",
        "%YAML 9.9\n---\nx: 1",
        "x: 1\n---\ny: 2",
        "x: \x07",
    ],
    ids=range(15),
)
def test_no_job_file_takes_more_than_a_moment(tmp_path: Path, text: str) -> None:
    """An alias bomb of 300 bytes is gigabytes when somebody walks it."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    started = time.monotonic()
    try:
        assert len(json.dumps(read_job_file(path).body)) < 1 << 20
    except BadSpec:
        pass
    assert time.monotonic() - started < 5


def test_an_alias_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(BOMB)
    with pytest.raises(BadSpec, match="line 2: aliases"):
        read_job_file(path)


def test_a_replica_may_say_so_much_at_once(stoker: Stoker) -> None:
    """Its lines are within a body's limit; its message is cut."""
    headers = bearer(stoker.tokens.of_attempt("p/waits.1")) | JSON
    line = {"n": 1, "t": 1.0, "s": "out", "m": "x" * (LARGEST_BODY_BYTES + 1)}
    with TestClient(patient(stoker), BASE, headers=headers) as client:
        assert client.post("/stoker/replica/v1/p/waits.1/chief-0/lines", json={"lines": [line]}).status_code == 413
