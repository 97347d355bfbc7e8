"""The files below a job's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api.dialects.native.artifacts import files_below
from stoker.app import Stoker
from stoker.store.files import Files
from stoker.store.objects.listing import Wanted
from tests.api.bodies import a_run, violations

PROJECT = "/stoker/v1/projects/p"
NAMES = ("a.txt", "a/b/c.txt", "a/z.txt", "a0.txt", "b/ü é.txt", "z")


@pytest.fixture
def folder(http: TestClient, stoker: Stoker) -> Path:
    """The directory of a job, with files in it."""
    http.post(f"{PROJECT}/jobs:run", json=a_run(job_dir="gs://some-bucket/out"))
    folder = stoker.config.home / "buckets/gs/some-bucket/out"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def listed(http: TestClient, query: str = "") -> dict[str, Any]:
    """A page of them."""
    found: dict[str, Any] = http.get(f"{PROJECT}/jobs/r/artifacts{query}").json()
    return found


def test_each_has_its_size_its_time_and_the_way_to_it(http: TestClient, folder: Path) -> None:
    page = listed(http)
    assert [found["name"] for found in page["artifacts"]] == sorted(NAMES)
    assert (page["job_dir"], page["next"]) == ("gs://some-bucket/out", None)
    for found in page["artifacts"]:
        assert found["uri"] == f"gs://some-bucket/out/{found['name']}"
        assert found["size_bytes"] == len(found["name"].encode())
        assert found["modified_at"] == (folder / found["name"]).stat().st_mtime
        assert http.get(found["download"]).content == found["name"].encode()


def test_in_pages(http: TestClient, folder: Path) -> None:
    found, query = [], "?limit=2"
    while True:
        page = listed(http, query)
        found += [file["name"] for file in page["artifacts"]]
        if page["next"] is None:
            break
        query = f"?limit=2&after={page['next']}"
    assert found == sorted(NAMES)


def test_links_and_half_written_files_are_none(http: TestClient, folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    (folder / ".m.txt.01234567.part").write_text("half")
    assert [found["name"] for found in listed(http)["artifacts"]] == sorted(NAMES)


def test_of_a_job_without_a_directory_there_are_none(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    assert listed(http) == {"job_dir": "", "artifacts": [], "next": None}


def test_a_directory_that_is_not_there_yet_is_empty(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run(job_dir="gs://some-bucket/nothing"))
    assert listed(http)["artifacts"] == []


def test_a_plain_path_is_listed_and_not_offered(http: TestClient, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x").write_text("x")
    http.post(f"{PROJECT}/jobs:run", json=a_run(job_dir=str(tmp_path / "out")))
    (found,) = listed(http)["artifacts"]
    assert (found["name"], found["download"], found["uri"]) == ("x", None, str(tmp_path / "out/x"))


def test_a_limit_that_is_none(http: TestClient, folder: Path) -> None:
    assert list(violations(http.get(f"{PROJECT}/jobs/r/artifacts?limit=x"))) == ["limit"]


class Cloud:
    """A cloud with two files, as fsspec shows one."""

    def find(self, root: str, detail: bool) -> dict[str, dict[str, Any]]:
        """What is below a path."""
        assert detail
        return {
            f"{root}/b": {"size": 2, "updated": "2026-01-01T00:00:00.000Z"},
            f"{root}/a/x": {"size": 1},
        }


def test_files_of_a_cloud(tmp_path: Path) -> None:
    files = Files(tmp_path, buckets={}, keep_buckets_here=False, cloud=lambda _: Cloud())
    found, after = files_below(files, "gs://some-bucket/out/", Wanted(limit=1))
    assert ([tuple(file) for file in found], after) == ([("a/x", 1, None)], "a/x")
    found, after = files_below(files, "gs://some-bucket/out/", Wanted(after=after))
    assert ([tuple(file) for file in found], after) == ([("b", 2, 1767225600.0)], "")
