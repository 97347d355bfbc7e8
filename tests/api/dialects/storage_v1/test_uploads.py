"""Uploads over HTTP: in one request, with metadata before, in chunks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Response
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from tests.api.asgi import request

UPLOAD = "/upload/storage/v1/b/some-bucket/o"
GCLOUD = "/resumable/upload/storage/v1/b/some-bucket/o"
OBJECTS = "/storage/v1/b/some-bucket/o"


def media(http: TestClient, name: str) -> bytes:
    return http.get(f"{OBJECTS}/{name}", params={"alt": "media"}).content


def bucket(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "home/buckets/gs/some-bucket").rglob("*") if path.is_file())


def multipart(http: TestClient, metadata: Any, content: bytes, **params: Any) -> Response:
    head = b"--b\nContent-Type: application/json\n\n" + json.dumps(metadata).encode()
    body = head + b"\n--b\nContent-Type: text/x\n\n" + content + b"\n--b--"
    return http.post(
        UPLOAD,
        params={"uploadType": "multipart", **params},
        content=body,
        headers={"Content-Type": "multipart/related; boundary='b'"},
    )


def begin(http: TestClient, path: str = UPLOAD, body: Any = None, **headers: str) -> str:
    params = {"uploadType": "resumable", "name": "a"}
    begun = http.post(path, params=params, json=body or {}, headers=headers)
    assert begun.status_code == 200 and begun.content == b"", begun.text
    location: str = begun.headers["location"]
    assert location.startswith(f"http://127.0.0.1:7077{path}?")
    return location


def send(http: TestClient, location: str, content: bytes, said: str, **headers: str) -> Response:
    return http.put(location, content=content, headers={"Content-Range": said, **headers})


# In one request


@pytest.mark.parametrize("params", [{"uploadType": "media"}, {}])
def test_the_body_is_the_content(http: TestClient, params: dict[str, str]) -> None:
    made = http.post(UPLOAD, params={**params, "name": "d/a"}, content=b"content", headers={"Content-Type": "text/x"})
    assert made.status_code == 200 and (made.json()["name"], made.json()["contentType"]) == ("d/a", "text/x")
    assert media(http, "d%2Fa") == b"content"


def test_a_body_in_chunks_of_no_known_length(http: TestClient) -> None:
    def blocks() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 70_000

    made = http.post(UPLOAD, params={"name": "a"}, content=blocks())
    assert made.json()["size"] == "3500000" and media(http, "a") == b"x" * 3_500_000


def test_metadata_before_the_content(http: TestClient) -> None:
    made = multipart(http, {"name": "a", "contentType": "text/y", "metadata": {"k": "v"}}, b"content").json()
    assert (made["contentType"], made["metadata"], made["size"]) == ("text/y", {"k": "v"}, "7")
    assert multipart(http, {}, b"", name="b").json()["contentType"] == "text/x"
    assert media(http, "a") == b"content" and media(http, "b") == b""


def test_a_body_that_is_packed_for_the_way(http: TestClient) -> None:
    packed = gzip.compress(b"content" * 100_000)
    made = http.post(UPLOAD, params={"name": "a"}, content=packed, headers={"Content-Encoding": "gzip"})
    assert made.json()["size"] == "700000" and "contentEncoding" not in made.json()
    for bad, encoding, status in ((packed[:-9], "gzip", 400), (b"plain", "gzip", 400), (b"x", "br", 501)):
        refused = http.post(UPLOAD, params={"name": "b"}, content=bad, headers={"Content-Encoding": encoding})
        assert refused.status_code == status
    assert http.get(f"{OBJECTS}/b").status_code == 404


@pytest.mark.parametrize(
    ("params", "headers", "status"),
    [
        ({}, {}, 400),
        ({"name": "../x"}, {}, 400),
        ({"name": "/x"}, {}, 400),
        ({"name": "x" * 300}, {}, 400),
        ({"name": ".a.0123abcd.part"}, {}, 400),
        ({"name": "d/"}, {}, 400),
        ({"name": "a", "uploadType": "unheard-of"}, {}, 400),
        ({"name": "a", "ifGenerationMatch": "5"}, {}, 412),
        ({"name": "a", "ifGenerationNotMatch": "0"}, {}, 412),
        ({"name": "a", "kmsKeyName": "k"}, {}, 501),
        ({"name": "a"}, {"X-Goog-Encryption-Key": "k"}, 501),
        ({"name": "a"}, {"X-Goog-Hash": "crc32c=AAAAAA=="}, 400),
        ({"name": "a"}, {"X-Goog-Hash": "crc32c=nonsense"}, 400),
        ({"name": "a"}, {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}, 400),
        ({"name": "a"}, {"Content-Type": "a\tb"}, 400),
    ],
)
def test_what_is_refused_leaves_nothing(
    http: TestClient, tmp_path: Path, params: dict[str, str], headers: dict[str, str], status: int
) -> None:
    refused = http.post(UPLOAD, params=params, content=b"content" * 1000, headers=headers)
    assert refused.status_code == status, refused.text
    assert bucket(tmp_path) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a", "crc32c": "AAAAAA=="},
        {"name": "a", "md5Hash": 5},
        {"name": 5},
        {"name": "\ud800"},
        {"name": "a", "metadata": 5},
    ],
)
def test_what_metadata_cannot_say(http: TestClient, tmp_path: Path, metadata: Any) -> None:
    assert multipart(http, metadata, b"content").status_code == 400 and bucket(tmp_path) == []


def test_hashes_that_are_right(http: TestClient) -> None:
    hashes = {"X-Goog-Hash": "crc32c=KAwGng==, md5=eB5eJF1ptWaXm4bijSPyxw=="}
    assert http.post(UPLOAD, params={"name": "a"}, content=b"0123456789", headers=hashes).status_code == 200
    said = {"name": "a", "crc32c": "KAwGng==", "md5Hash": "eB5eJF1ptWaXm4bijSPyxw=="}
    assert multipart(http, said, b"0123456789").status_code == 200


def test_only_a_new_object(http: TestClient) -> None:
    params = {"name": "a", "ifGenerationMatch": "0"}
    assert http.post(UPLOAD, params=params, content=b"first").status_code == 200
    refused = http.post(UPLOAD, params=params, content=b"second")
    assert refused.status_code == 412 and refused.json()["error"]["status"] == "FAILED_PRECONDITION"
    assert media(http, "a") == b"first"


def test_a_client_that_goes_away_leaves_nothing(stoker: Stoker, tmp_path: Path) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    request(app, "POST", UPLOAD, stoker.tokens.token, b"half", cut=True)
    assert bucket(tmp_path) == []


def test_a_body_without_a_length(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    assert request(app, "POST", UPLOAD, stoker.tokens.token).status_code == 411


# In chunks


@pytest.mark.parametrize("path", [UPLOAD, GCLOUD])
def test_chunks_become_the_object(http: TestClient, path: str) -> None:
    location = begin(http, path, {"contentType": "text/x"}, **{"X-Upload-Content-Length": "10"})
    asked = send(http, location, b"", "bytes */10")
    assert asked.status_code == 308 and "range" not in asked.headers and asked.content == b""
    first = send(http, location, b"01234", "bytes 0-4/10")
    assert first.status_code == 308 and first.headers["range"] == "bytes=0-4"
    assert send(http, location, b"", "bytes */*").headers["range"] == "bytes=0-4"
    last = send(http, location, b"56789", "bytes 5-9/10")
    assert last.status_code == 200 and last.json()["contentType"] == "text/x" and media(http, "a") == b"0123456789"
    for again in ("bytes */10", "bytes */*"):
        assert send(http, location, b"", again).json() == last.json(), "its answer may have been lost"


def test_a_size_that_is_known_at_the_end(http: TestClient) -> None:
    location = begin(http, **{"X-Upload-Content-Type": "text/x"})
    assert send(http, location, b"0123", "bytes 0-3/*").headers["range"] == "bytes=0-3"
    assert send(http, location, b"4567", "bytes 4-7/*").headers["range"] == "bytes=0-7"
    ended = http.post(location, headers={"Content-Range": "bytes */8"})  # gcsfs sends chunks by POST
    assert ended.status_code == 200 and ended.json()["contentType"] == "text/x" and media(http, "a") == b"01234567"


def test_all_of_it_in_one(http: TestClient) -> None:
    assert http.put(begin(http), content=b"content").json()["size"] == "7" and media(http, "a") == b"content"
    assert send(http, begin(http), b"", "bytes */0").json()["size"] == "0"


def test_chunks_that_overlap(http: TestClient) -> None:
    location = begin(http)
    send(http, location, b"0123", "bytes 0-3/10")
    assert send(http, location, b"2345", "bytes 2-5/10").headers["range"] == "bytes=0-5"
    assert send(http, location, b"0123456789", "bytes 0-9/10").status_code == 200 and media(http, "a") == b"0123456789"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"9", "bytes 9-9/10"),
        (b"45678", "bytes 4-7/10"),
        (b"4", "bytes 4-4/11"),
        (b"4", "nonsense"),
        (b"4" * 9, "bytes 4-12/*"),
    ],
)
def test_chunks_that_do_not_fit(http: TestClient, content: bytes, said: str) -> None:
    location = begin(http, **{"X-Upload-Content-Length": "10"})
    send(http, location, b"0123", "bytes 0-3/10")
    refused = send(http, location, content, said)
    assert refused.status_code == 400 and "Content-Range" in refused.text


def test_a_hash_with_the_last_chunk(http: TestClient, tmp_path: Path) -> None:
    location = begin(http)
    send(http, location, b"01234", "bytes 0-4/10")
    refused = send(http, location, b"56789", "bytes 5-9/10", **{"X-Goog-Hash": "crc32c=AAAAAA=="})
    assert refused.status_code == 400 and bucket(tmp_path) == []
    assert send(http, location, b"", "bytes */*").status_code == 404
    made = send(http, begin(http), b"0123456789", "bytes 0-9/10", **{"X-Goog-Hash": "crc32c=KAwGng=="})
    assert made.status_code == 200


def test_a_cancelled_upload(http: TestClient, tmp_path: Path) -> None:
    location = begin(http)
    send(http, location, b"01234", "bytes 0-4/10")
    assert http.delete(location).status_code == 499
    assert send(http, location, b"", "bytes */*").status_code == 404 == http.delete(location).status_code
    assert bucket(tmp_path) == []


def test_a_client_that_goes_away_goes_on_where_it_was(http: TestClient, stoker: Stoker) -> None:
    location = begin(http)
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077), needs_token=False)
    query = location.partition("?")[2].encode()

    async def with_query(scope: Any, receive: Any, deliver: Any) -> None:
        await app({**scope, "query_string": query}, receive, deliver)

    request(with_query, "PUT", UPLOAD, stoker.tokens.token, b"0123", cut=True)
    assert send(http, location, b"", "bytes */*").headers["range"] == "bytes=0-3"
    assert send(http, location, b"456789", "bytes 4-9/10").status_code == 200 and media(http, "a") == b"0123456789"


def test_what_cannot_be_begun(http: TestClient) -> None:
    params = {"uploadType": "resumable"}
    for said, headers, status in (
        ({"name": "../x"}, {}, 400),
        ({}, {}, 400),
        ([], {}, 400),
        ({"name": "a"}, {"X-Upload-Content-Length": "x"}, 400),
        ({"name": "a"}, {"X-Upload-Content-Type": "a\tb"}, 400),
    ):
        assert http.post(UPLOAD, params=params, json=said, headers=headers).status_code == status
    refused = http.post(UPLOAD, params={**params, "ifGenerationMatch": "5"}, json={"name": "a"})
    assert refused.status_code == 412
    for id in ("x", "../../token", "a" * 43):
        assert http.put(UPLOAD, params={"upload_id": id}, content=b"x").status_code == 404
    assert http.put(UPLOAD, content=b"x").status_code == 400
