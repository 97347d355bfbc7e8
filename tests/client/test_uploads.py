"""What is uploaded, and under which names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.client.client import Client
from stoker.client.uploads import Progress, upload_packages
from stoker.core.errors import BadSpec


class Shelf(Client):
    """A client that keeps what is uploaded, and asks nobody."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.uploads = 0

    def exists(self, uri: str) -> bool:
        """Whether it was uploaded."""
        return uri in self.files

    def upload(self, path: Path, uri: str, progress: Any = None) -> None:
        """Keep it."""
        self.uploads += 1
        self.files[uri] = path.read_bytes()


def uploaded(shelf: Shelf, training: dict[str, Any] | None = None, *packages: str | Path, **how: Any) -> list[str]:
    """The packageUris of a job with these packages."""
    body = {"jobId": "j", "trainingInput": dict(training or {})}
    upload_packages(shelf, body, packages=[*map(str, packages)], progress=Progress(), **how)
    found: list[str] = body["trainingInput"].get("packageUris", [])  # type: ignore[attr-defined]
    return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A trainer package."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/__init__.py").write_text("# 1\n")
    return tmp_path / "trainer"


@pytest.fixture
def archives(tmp_path: Path) -> tuple[Path, Path]:
    """Two local archives."""
    paths = tmp_path / "a-1.whl", tmp_path / "b-1.tar.gz"
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def test_packages_go_in_gclouds_order_the_trainer_last(package: Path, archives: tuple[Path, Path]) -> None:
    uris = uploaded(Shelf(), {}, archives[0], "gs://bucket/c.whl", archives[1], package_path=package)
    assert uris[0] == "gs://bucket/c.whl"
    assert [uri.rpartition("/")[2] for uri in uris[1:]] == ["a-1.whl", "b-1.tar.gz", "trainer-0.0.0.tar.gz"]


@pytest.mark.parametrize(
    ("flags", "job_dir", "start"),
    [
        ({}, None, "gs://stoker-staging/j/"),
        ({"staging_bucket": "my-bucket"}, "gs://other/out", "gs://my-bucket/j/"),
        ({"staging_bucket": "gs://my-bucket/"}, None, "gs://my-bucket/j/"),
        ({}, "gs://bucket/out/", "gs://bucket/out/packages/"),
        ({}, "gs://bucket", "gs://bucket/packages/"),
        ({}, "s3://bucket/out", "s3://bucket/out/packages/"),
        ({}, "/shared/out", "gs://stoker-staging/j/"),
        ({}, "gs://bucket/../x", "gs://stoker-staging/j/"),
        ({}, "gs://x/out", "gs://stoker-staging/j/"),
    ],
)
def test_where_packages_go(archives: tuple[Path, Path], flags: dict[str, str], job_dir: str | None, start: str) -> None:
    (uri,) = uploaded(Shelf(), {"jobDir": job_dir} if job_dir else {}, archives[0], **flags)
    digest = uri.removeprefix(start).partition("/")[0]
    assert uri == f"{start}{digest}/a-1.whl" and len(digest) == 64


def test_what_is_there_is_not_sent_again_and_what_has_changed_is(package: Path, archives: tuple[Path, Path]) -> None:
    shelf = Shelf()
    first = uploaded(shelf, {}, archives[0], package_path=package)
    assert uploaded(shelf, {}, archives[0], package_path=package) == first and shelf.uploads == 2
    archives[0].write_bytes(b"another content, the same name, the same trainer")
    second = uploaded(shelf, {}, archives[0], package_path=package)
    assert second[0] != first[0] and shelf.files[second[0]] == archives[0].read_bytes()
    (package / "__init__.py").write_text("# 2\n")
    assert not set(uploaded(shelf, {}, archives[0], package_path=package)) & {*first, *second}


def test_without_packages_the_files_stay() -> None:
    assert uploaded(Shelf(), {"packageUris": ["gs://b/x"]}) == ["gs://b/x"]
    assert uploaded(Shelf(), {"packageUris": ["gs://b/x"]}, "gs://bucket/c.whl") == ["gs://bucket/c.whl"]


def test_everything_wrong_with_the_packages_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as refused:
        uploaded(Shelf(), {}, tmp_path / "x/a.whl", tmp_path / "y/a.whl", tmp_path)
    assert [v.description.rpartition("/")[2] for v in refused.value.violations[:2]] == ["a.whl is not a file"] * 2
    assert "two files of the same name" in refused.value.violations[3].description


@pytest.mark.parametrize("bucket", ["x", "../x", "a/b", "UPPER", "gs://a"])
def test_a_staging_bucket_that_is_none_is_told_before_anything_is_packed(package: Path, bucket: str) -> None:
    with pytest.raises(BadSpec, match="--staging-bucket"):
        uploaded(Shelf(), package_path=package / "nothing", staging_bucket=bucket)


def test_an_input_that_is_no_table_is_left_to_the_rules(package: Path) -> None:
    body: dict[str, Any] = {"jobId": "j", "trainingInput": ["x"]}
    upload_packages(Shelf(), body, package_path=package, progress=Progress())
    assert body["trainingInput"] == ["x"]
