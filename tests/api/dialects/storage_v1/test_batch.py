"""Several calls in one request."""

from __future__ import annotations

import json
import re
from email.parser import BytesParser

import pytest
from httpx import Response
from starlette.testclient import TestClient

from stoker.api.dialects.storage_v1.batch import MOST_CALLS

UPLOAD = "/upload/storage/v1/b/some-bucket/o"
OBJECTS = "/storage/v1/b/some-bucket/o"


def send(http: TestClient, *calls: str, end: str = "\r\n") -> Response:
    parts = [f"--b\nContent-Type: application/http\nContent-ID: <{n}>\n\n{call}\n" for n, call in enumerate(calls)]
    body = "".join(parts) + "--b--"
    return http.post(
        "/batch/storage/v1",
        content=body.replace("\n", end).encode(),
        headers={"Content-Type": 'multipart/mixed; boundary="b"'},
    )


def answers(response: Response) -> list[tuple[str, int, str]]:
    """(Content-ID, status, body) of every part."""
    assert response.status_code == 200, response.text
    head = f"Content-Type: {response.headers['content-type']}\r\n\r\n".encode()
    found = []
    for part in BytesParser().parsebytes(head + response.content).get_payload():
        status, _, rest = part.get_payload().partition("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", status)
        assert match and part.get_content_type() == "application/http"
        found.append((part["Content-ID"], int(match[1]), rest.partition("\r\n\r\n")[2].removesuffix("\r\n")))
    return found


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_call_is_answered_as_if_it_had_come_alone(http: TestClient, end: str) -> None:
    for name in ("a/b", "c"):
        http.post(UPLOAD, params={"name": name}, content=b"x")
    found = answers(
        send(
            http,
            f"DELETE {OBJECTS}/a%2Fb HTTP/1.1\nContent-Length: 0\n\n",
            f"\n\nGET https://storage.googleapis.com{OBJECTS}/c?fields=name HTTP/1.1\nAuthorization: Bearer other\n\n",
            f'PATCH {OBJECTS}/c HTTP/1.1\nContent-Type: application/json\n\n{{"metadata": {{"k": "v"}}}}',
            f"DELETE {OBJECTS}/none HTTP/1.1\n\n",
            f"DELETE {OBJECTS}/c?ifGenerationMatch=5 HTTP/1.1\n\n",
            end=end,
        )
    )
    assert [(id, status) for id, status, _ in found] == [
        ("<response-0>", 204),
        ("<response-1>", 200),
        ("<response-2>", 200),
        ("<response-3>", 404),
        ("<response-4>", 412),
    ]
    assert json.loads(found[1][2]) == {"name": "c"} and json.loads(found[2][2])["metadata"] == {"k": "v"}
    assert [item["name"] for item in http.get(OBJECTS).json()["items"]] == ["c"]


@pytest.mark.parametrize(
    "call",
    [
        f"GET {OBJECTS}/a?alt=media HTTP/1.1\n\n",
        f"POST {UPLOAD}?name=a HTTP/1.1\n\nx",
        "POST /batch/storage/v1 HTTP/1.1\n\n",
        "POST /stoker/v1/shutdown HTTP/1.1\n\n",
        "GET /stoker/replica/v1/p/1/chief-0/files/0 HTTP/1.1\n\n",
        "GET //[ HTTP/1.1\n\n",
    ],
)
def test_no_other_calls_are_made(http: TestClient, call: str) -> None:
    ((_, status, _),) = answers(send(http, call))
    assert status in (400, 501)


def test_a_path_that_climbs_out_reaches_nothing(http: TestClient) -> None:
    ((_, status, _),) = answers(send(http, "POST /storage/v1/../../stoker/v1/shutdown HTTP/1.1\n\n"))
    assert status == 404


@pytest.mark.parametrize("calls", [[], ["nonsense"], [""], ["GET /storage/v1/b HTTP/1.1\n\n"] * (MOST_CALLS + 1)])
def test_what_is_no_batch_is_refused(http: TestClient, calls: list[str]) -> None:
    assert send(http, *calls).status_code == 400


def test_another_type_and_a_large_body_are_refused(http: TestClient) -> None:
    assert http.post("/batch/storage/v1", content=b"{}").status_code == 400
    large = http.post(
        "/batch/storage/v1", content=bytes(11 << 20), headers={"Content-Type": "multipart/mixed; boundary=b"}
    )
    assert large.status_code == 413


def test_a_batch_needs_the_token(http: TestClient) -> None:
    assert http.post("/batch/storage/v1", headers={"Authorization": "Bearer wrong"}).status_code == 401
