"""Files in and out of buckets: nothing leads out of one, and what is cut off leaves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from tests.api.asgi import Answer, request

FILES = "/stoker/v1/files"
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
    before = sorted({*stoker.config.home.rglob("*"), stoker.config.home / "audit.log"})
    for name in TRAVERSALS:
        answer = ask(stoker, app, method, name, b"written")
        assert answer.status_code in (400, 404), (name, answer)
        assert b"root:" not in answer.body
    assert sorted({*stoker.config.home.rglob("*"), stoker.config.home / "audit.log"}) == before


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
