"""Buckets over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

B = "/storage/v1/b"


def test_a_bucket_is_there_as_soon_as_it_is_named(http: TestClient) -> None:
    found = http.get(f"{B}/some-bucket", params={"projection": "noAcl", "prettyPrint": "false"})
    assert found.status_code == 200
    assert {"kind": "storage#bucket", "name": "some-bucket", "location": "US-CENTRAL1"}.items() <= found.json().items()
    assert "timeCreated" not in found.json(), "nothing was ever written to it"
    assert http.get(B, params={"project": "p"}).json() == {"kind": "storage#buckets", "items": []}


def test_a_bucket_is_made_listed_and_removed(http: TestClient, tmp_path: Path) -> None:
    made = http.post(B, params={"project": "p"}, json={"name": "some-bucket", "location": "EU"})
    assert made.status_code == 200 and made.json()["timeCreated"].endswith("Z")
    assert (tmp_path / "home/buckets/gs/some-bucket").is_dir()
    assert [b["name"] for b in http.get(B, params={"project": "p", "prefix": "some"}).json()["items"]] == [
        "some-bucket"
    ]
    assert http.get(B, params={"prefix": "other"}).json()["items"] == []
    assert http.post(B, json={"name": "some-bucket"}).status_code == 409
    assert http.delete(f"{B}/some-bucket").status_code == 204
    assert http.delete(f"{B}/some-bucket").status_code == 404


def test_a_bucket_with_objects_stays(http: TestClient) -> None:
    http.post("/upload/storage/v1/b/some-bucket/o", params={"name": "a"}, content=b"x")
    assert http.delete(f"{B}/some-bucket").status_code == 409


@pytest.mark.parametrize("name", ["AB", "a", "a/b", "..", "a" * 64, "", 5, None])
def test_an_unlawful_name_is_refused(http: TestClient, name: object) -> None:
    assert http.post(B, json={"name": name}).status_code == 400


@pytest.mark.parametrize("path", ["/Bad", "/Bad/o", "/Bad/o/x", "/Bad/storageLayout", "/Bad/managedFolders"])
def test_an_unlawful_name_in_the_path_is_refused(http: TestClient, path: str) -> None:
    refused = http.get(B + path)
    assert refused.status_code == 400
    assert refused.json()["error"]["details"][0]["fieldViolations"][0]["field"] == "bucket"


def test_what_gcloud_asks_for(http: TestClient) -> None:
    layout = http.get(f"{B}/some-bucket/storageLayout").json()
    assert layout["hierarchicalNamespace"] == {"enabled": False} and layout["bucket"] == "some-bucket"
    assert http.get(f"{B}/some-bucket/managedFolders").json() == {} == http.get(f"{B}/some-bucket/folders").json()


def test_what_is_not_served_says_so(http: TestClient) -> None:
    assert (
        http.patch(f"{B}/some-bucket", json={}).status_code == 501 == http.put(f"{B}/some-bucket", json={}).status_code
    )
    assert http.get(f"{B}/some-bucket/iam").status_code == 404


def test_a_partial_answer(http: TestClient) -> None:
    assert http.get(f"{B}/some-bucket", params={"fields": "name"}).json() == {"name": "some-bucket"}
    assert http.get(f"{B}/some-bucket", params={"fields": "(("}).status_code == 400
