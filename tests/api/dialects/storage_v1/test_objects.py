"""Objects over HTTP: what is said of them, their bytes, copies, refusals."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import google_crc32c
import pytest
from httpx import Response
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from tests.api.asgi import request

OBJECTS = "/storage/v1/b/some-bucket/o"
ODD_NAMES = [
    "a/b c.txt",
    "ü/ß?#%25 x&y+z.txt",
    "100%",
    "a%2Fb",
    "q?x=1#f",
    "emoji-😀",
    "~tilde'(x)*!",
    "a;b=c",
    "-rf",
    "...",
]


def put(http: TestClient, name: str, content: bytes = b"0123456789", **params: Any) -> dict[str, Any]:
    made = http.post("/upload/storage/v1/b/some-bucket/o", params={"name": name, **params}, content=content)
    assert made.status_code == 200, made.text
    found: dict[str, Any] = made.json()
    return found


def at(name: str) -> str:
    return f"{OBJECTS}/{quote(name, safe='')}"


def media(http: TestClient, name: str, **headers: str) -> Response:
    return http.get(f"/download{at(name)}", params={"alt": "media"}, headers=headers)


def reason(refused: Response) -> str:
    found: str = refused.json()["error"]["status"]
    return found


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_taken_as_they_are(http: TestClient, name: str) -> None:
    made = put(http, name)
    assert made["name"] == name and http.get(at(name)).json() == made
    assert media(http, name).content == b"0123456789" == http.get(at(name), params={"alt": "media"}).content
    assert [item["name"] for item in http.get(OBJECTS).json()["items"]] == [name]
    links = [made[link].removeprefix("http://127.0.0.1:7077") for link in ("selfLink", "mediaLink")]
    assert http.get(links[0]).json() == made and http.get(links[1]).content == b"0123456789"
    assert http.delete(at(name)).status_code == 204 and http.get(at(name)).status_code == 404


def test_a_name_with_slashes_as_they_are(http: TestClient) -> None:
    put(http, "a/b/c")
    assert http.get(f"{OBJECTS}/a/b/c").json()["name"] == "a/b/c"


def test_what_is_known_of_an_object(http: TestClient) -> None:
    made = put(http, "a.json", b"content")
    assert made["kind"] == "storage#object" and made["id"] == f"some-bucket/a.json/{made['generation']}"
    assert {
        "bucket": "some-bucket",
        "size": "7",
        "metageneration": "1",
        "storageClass": "STANDARD",
    }.items() <= made.items()
    assert made["md5Hash"] == base64.b64encode(hashlib.md5(b"content").digest()).decode()
    assert made["crc32c"] == base64.b64encode(google_crc32c.value(b"content").to_bytes(4, "big")).decode()
    assert made["timeCreated"] == made["updated"] and made["timeCreated"].endswith("Z")
    assert made["contentType"] == "application/json", "as its name suggests, for nothing was said"


def test_a_program_s_file_is_an_object_with_hashes(http: TestClient, tmp_path: Path) -> None:
    folder = tmp_path / "home/buckets/gs/some-bucket"
    folder.mkdir(parents=True)
    (folder / "model.txt").write_bytes(b"content")
    found, listed = http.get(at("model.txt")).json(), http.get(OBJECTS).json()["items"]
    assert listed == [found] and found["md5Hash"] == base64.b64encode(hashlib.md5(b"content").digest()).decode()
    assert found["contentType"] == "text/plain"
    assert f"crc32c={found['crc32c']}" in media(http, "model.txt").headers["x-goog-hash"]


def test_a_listing(http: TestClient) -> None:
    for name in ("a/1", "a/2", "b", "c/d/e"):
        put(http, name)
    everything = http.get(OBJECTS).json()
    assert [item["name"] for item in everything["items"]] == ["a/1", "a/2", "b", "c/d/e"]
    assert set(everything) == {"kind", "items"}
    level = http.get(OBJECTS, params={"delimiter": "/"}).json()
    assert [item["name"] for item in level["items"]] == ["b"] and level["prefixes"] == ["a/", "c/"]
    assert http.get(OBJECTS, params={"prefix": "x"}).json() == {"kind": "storage#objects"}
    pages, token = [], ""
    while True:
        page = http.get(OBJECTS, params={"maxResults": 1, "delimiter": "/", "pageToken": token}).json()
        pages.append([item["name"] for item in page.get("items", [])] + page.get("prefixes", []))
        if not (token := page.get("nextPageToken", "")):
            break
    assert pages == [["a/"], ["b"], ["c/"]]
    bounds = {"startOffset": "a/2", "endOffset": "c"}
    assert [item["name"] for item in http.get(OBJECTS, params=bounds).json()["items"]] == ["a/2", "b"]
    fields = "items/name,items/metadata/goog-reserved-posix-uid,prefixes"
    assert http.get(OBJECTS, params={"prefix": "b", "fields": fields}).json() == {"items": [{"name": "b"}]}


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"pageToken": "!"}, 400),
        ({"pageToken": "/w=="}, 400),
        ({"maxResults": "x"}, 400),
        ({"maxResults": "-1"}, 400),
        ({"prefix": "../"}, 400),
        ({"fields": "(("}, 400),
        ({"matchGlob": "*"}, 501),
    ],
)
def test_a_listing_that_is_not_served(http: TestClient, params: dict[str, str], status: int) -> None:
    assert http.get(OBJECTS, params=params).status_code == status


@pytest.mark.parametrize(
    ("header", "status", "content"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-2", 206, b"89"),
        ("bytes=9-99", 206, b"9"),
        ("bytes=0-1,3-4", 200, b"0123456789"),
        ("nonsense", 200, b"0123456789"),
    ],
)
def test_a_range(http: TestClient, header: str, status: int, content: bytes) -> None:
    put(http, "a")
    answer = media(http, "a", Range=header)
    assert (answer.status_code, answer.content) == (status, content)
    assert answer.headers["content-length"] == str(len(content)) and answer.headers["accept-ranges"] == "bytes"
    assert ("content-range" in answer.headers) == (status == 206)


def test_a_range_that_is_not_there(http: TestClient) -> None:
    put(http, "a")
    refused = media(http, "a", Range="bytes=10-")
    assert refused.status_code == 416 and refused.headers["content-range"] == "bytes */10"
    assert reason(refused) == "OUT_OF_RANGE"
    put(http, "empty", b"")
    assert media(http, "empty").content == b"" and media(http, "empty", Range="bytes=0-").status_code == 416


def test_a_range_of_another_content_is_all_of_this_one(http: TestClient) -> None:
    etag = f'"{put(http, "a")["etag"]}"'
    assert media(http, "a", **{"Range": "bytes=0-1", "If-Range": etag}).content == b"01"
    put(http, "a", b"another")
    assert media(http, "a", **{"Range": "bytes=0-1", "If-Range": etag}).content == b"another"


def test_the_headers_of_a_download(http: TestClient) -> None:
    made = put(http, "a.html", b"<script>")
    headers = media(http, "a.html").headers
    assert headers["content-type"] == "text/html" and headers["x-goog-generation"] == made["generation"]
    assert headers["x-goog-hash"] == f"crc32c={made['crc32c']},md5={made['md5Hash']}"
    assert headers["x-goog-stored-content-length"] == "8" and headers["etag"] == f'"{made["etag"]}"'
    assert headers["content-disposition"] == "attachment" and headers["x-content-type-options"] == "nosniff", (
        "no page of ours"
    )


def test_what_was_uploaded_as_gzip_is_unpacked_for_who_takes_none(http: TestClient) -> None:
    put(http, "a.gz", gzip.compress(b"content" * 1000))
    http.patch(at("a.gz"), json={"contentEncoding": "gzip"})
    packed = media(http, "a.gz", **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and packed.content == b"content" * 1000  # httpx unpacks it
    plain = media(http, "a.gz", **{"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.content == b"content" * 1000
    http.patch(at("a.gz"), json={"cacheControl": "no-transform"})
    assert "content-encoding" in media(http, "a.gz", **{"Accept-Encoding": "identity"}).headers


@pytest.mark.parametrize("path", [at("a"), f"/download{at('a')}"])
def test_conditions_of_a_read(http: TestClient, path: str) -> None:
    generation = put(http, "a")["generation"]
    for params, status in (
        ({"generation": generation}, 200),
        ({"generation": "1"}, 404),
        ({"ifGenerationMatch": generation}, 200),
        ({"ifGenerationMatch": "1"}, 412),
        ({"ifGenerationNotMatch": generation}, 304),
        ({"ifGenerationNotMatch": "1"}, 200),
        ({"ifMetagenerationMatch": "2"}, 412),
        ({"ifMetagenerationNotMatch": "1"}, 304),
        ({"ifGenerationMatch": "x"}, 400),
    ):
        assert http.get(path, params=params).status_code == status, params


def test_conditions_of_a_delete(http: TestClient) -> None:
    generation = put(http, "a")["generation"]
    for params, status in (
        ({"ifGenerationMatch": "1"}, 412),
        ({"generation": "1"}, 404),
        ({"ifMetagenerationNotMatch": "1"}, 412),
        ({"ifGenerationMatch": generation}, 204),
        ({}, 404),
    ):
        assert http.delete(at("a"), params=params).status_code == status, params


def test_what_is_said_is_changed(http: TestClient) -> None:
    made = put(http, "a")
    patched = http.patch(at("a"), json={"contentType": "x/y", "metadata": {"k": "v", "l": "w"}}).json()
    assert (patched["contentType"], patched["metageneration"]) == ("x/y", "2")
    assert patched["generation"] == made["generation"] and patched["etag"] != made["etag"]
    patched = http.patch(at("a"), json={"contentType": None, "metadata": {"k": None, "m": "ü"}}).json()
    assert patched["metadata"] == {"l": "w", "m": "ü"} and patched["contentType"] == "application/octet-stream"
    updated = http.put(at("a"), json={"cacheControl": "no-store", "size": "5", "unknown": 1}).json()
    assert "metadata" not in updated and updated["cacheControl"] == "no-store" and updated["size"] == "10"
    assert http.patch(at("a"), params={"ifMetagenerationMatch": 1}, json={}).status_code == 412
    assert http.patch(at("none"), json={}).status_code == 404
    assert http.patch(at("a"), params={"generation": 1}, json={}).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"contentType": 5},
        {"contentType": "a\r\nX-Evil: b"},
        {"cacheControl": "ü"},
        {"metadata": {"k": 5}},
        {"metadata": []},
        {"metadata": {"k": "v" * 9000}},
        {"metadata": {"k": "\ud800"}},
    ],
)
def test_what_cannot_be_said(http: TestClient, body: Any) -> None:
    put(http, "a")
    assert http.patch(at("a"), content=json.dumps(body)).status_code == 400


def test_copies(http: TestClient) -> None:
    put(http, "a b")
    http.patch(at("a b"), json={"contentType": "x/y", "metadata": {"k": "v"}})
    copied = http.post(f"{at('a b')}/copyTo/b/other-bucket/o/{quote('c/d', safe='')}").json()
    assert (copied["bucket"], copied["name"], copied["contentType"]) == ("other-bucket", "c/d", "x/y")
    rewritten = http.post(f"{at('a b')}/rewriteTo/b/some-bucket/o/e", json={"contentType": "z/z"}).json()
    assert {"done": True, "objectSize": "10", "totalBytesRewritten": "10"}.items() <= rewritten.items()
    assert rewritten["resource"]["contentType"] == "z/z" and "metadata" not in rewritten["resource"]
    assert media(http, "e").content == b"0123456789"


def test_composed_objects(http: TestClient) -> None:
    generation = put(http, "a", b"one")["generation"]
    put(http, "b", b"two")
    body: dict[str, Any] = {
        "sourceObjects": [{"name": "a", "generation": generation}, {"name": "b"}],
        "destination": {"contentType": "x/y"},
    }
    composed = http.post(f"{at('c/d')}/compose", json=body).json()
    assert (composed["name"], composed["contentType"], composed["size"]) == ("c/d", "x/y", "6")
    assert media(http, "c/d").content == b"onetwo"
    body["sourceObjects"][0] = {"name": "a", "objectPreconditions": {"ifGenerationMatch": "1"}}
    assert http.post(f"{at('e')}/compose", json=body).status_code == 412
    for sources in ([], None, [5], [{}], [{"name": "a", "generation": "x"}], [{"name": "a"}] * 33):
        assert http.post(f"{at('e')}/compose", json={"sourceObjects": sources}).status_code == 400


def test_moved_objects(http: TestClient) -> None:
    made = put(http, "a/b")
    moved = http.post(f"{at('a/b')}/moveTo/o/{quote('c/d', safe='')}").json()
    assert moved["name"] == "c/d" and moved["md5Hash"] == made["md5Hash"] and http.get(at("a/b")).status_code == 404
    assert http.post(f"{at('c/d')}/moveTo/o/x", params={"ifSourceGenerationMatch": "1"}).status_code == 412


def test_conditions_of_copies(http: TestClient) -> None:
    generation = put(http, "a")["generation"]
    for params, status in (
        ({"sourceGeneration": "1"}, 412),
        ({"ifSourceGenerationMatch": "1"}, 412),
        ({"ifSourceGenerationMatch": generation, "ifGenerationMatch": "0"}, 200),
        ({"ifGenerationMatch": "0"}, 412),
    ):
        assert http.post(f"{at('a')}/rewriteTo/b/some-bucket/o/b", params=params).status_code == status, params
    assert http.post(f"{at('none')}/rewriteTo/b/some-bucket/o/b").status_code == 404
    assert http.post(f"{at('a')}/unheardOf").status_code == 404


@pytest.mark.parametrize(
    "name", ["..%2Fx", "a%2F..%2F..%2Fx", "%2Fetc%2Fpasswd", "%252e%252e%2Fx", "..", "../x", "a%00b", "a%5C..%5Cb"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_name_leads_out(stoker: Stoker, name: str, method: str) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    for prefix in ("", "/download") if method == "GET" else ("",):
        assert request(app, method, f"{prefix}{OBJECTS}/{name}", stoker.tokens.token).status_code == 400


def test_a_name_that_is_not_utf_8(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    assert request(app, "GET", f"{OBJECTS}/%FF", stoker.tokens.token).status_code == 400


def test_without_the_token_nothing_is_told(http: TestClient) -> None:
    put(http, "a")
    for method, path in (
        ("GET", OBJECTS),
        ("GET", at("a")),
        ("DELETE", at("a")),
        ("POST", "/upload/storage/v1/b/x-y/o"),
    ):
        assert http.request(method, path, headers={"Authorization": "Bearer wrong"}).status_code == 401
