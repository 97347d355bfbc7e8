"""From flags and files to a submitted job: what is uploaded, under which names, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.cli.submission import located, machines_line, upload_packages, without
from stoker.client.client import Client
from stoker.client.job_file import read_job_file
from stoker.core.errors import BadSpec, NotFound, Violation


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


def uploaded(shelf: Shelf, training: dict[str, Any] | None = None, **flags: Any) -> list[str]:
    """The packageUris of a job with these flags."""
    body = {"jobId": "j", "trainingInput": dict(training or {})}
    upload_packages(shelf, body, flags)
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
    given = f"{archives[0]},gs://bucket/c.whl,{archives[1]}"
    uris = uploaded(Shelf(), packages=given, package_path=package)
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
    (uri,) = uploaded(Shelf(), {"jobDir": job_dir} if job_dir else {}, packages=str(archives[0]), **flags)
    digest = uri.removeprefix(start).partition("/")[0]
    assert uri == f"{start}{digest}/a-1.whl" and len(digest) == 64


def test_what_is_there_is_not_sent_again_and_what_has_changed_is(package: Path, archives: tuple[Path, Path]) -> None:
    shelf = Shelf()
    first = uploaded(shelf, packages=str(archives[0]), package_path=package)
    assert uploaded(shelf, packages=str(archives[0]), package_path=package) == first and shelf.uploads == 2
    archives[0].write_bytes(b"another content, the same name, the same trainer")
    second = uploaded(shelf, packages=str(archives[0]), package_path=package)
    assert second[0] != first[0] and shelf.files[second[0]] == archives[0].read_bytes()
    (package / "__init__.py").write_text("# 2\n")
    assert not set(uploaded(shelf, packages=str(archives[0]), package_path=package)) & {*first, *second}


def test_without_packages_the_files_stay() -> None:
    assert uploaded(Shelf(), {"packageUris": ["gs://b/x"]}) == ["gs://b/x"]
    assert uploaded(Shelf(), {"packageUris": ["gs://b/x"]}, packages="gs://bucket/c.whl") == ["gs://bucket/c.whl"]


def test_everything_wrong_with_the_packages_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as refused:
        uploaded(Shelf(), packages=f"{tmp_path}/x/a.whl,{tmp_path}/y/a.whl,{tmp_path}")
    assert [v.description.rpartition("/")[2] for v in refused.value.violations[:2]] == ["a.whl is not a file"] * 2
    assert "two files of the same name" in refused.value.violations[3].description


@pytest.mark.parametrize("bucket", ["x", "../x", "a/b", "UPPER", "gs://a"])
def test_a_staging_bucket_that_is_none_is_told_before_anything_is_packed(package: Path, bucket: str) -> None:
    with pytest.raises(BadSpec, match="--staging-bucket"):
        uploaded(Shelf(), package_path=package / "nothing", staging_bucket=bucket)


def test_an_input_that_is_no_table_is_left_to_the_rules(package: Path) -> None:
    body: dict[str, Any] = {"jobId": "j", "trainingInput": ["x"]}
    upload_packages(Shelf(), body, {"package_path": package})
    assert body["trainingInput"] == ["x"]


def test_machines_in_one_line() -> None:
    def machine(role: str, count: int, kind: str, gpus: int = 0) -> dict[str, Any]:
        return {
            "role": role,
            "count": count,
            "machine_type": kind,
            "vcpus": 2.0,
            "accelerators": gpus,
            "accelerator": "T4",
        }

    machines = [machine("chief", 1, "n1-highcpu-16", 4), machine("worker", 9, ""), machine("ps", 3, "n1-highmem-8")]
    assert machines_line({"machines": machines}) == "chief n1-highcpu-16 + 4 T4 · 9 worker 2 vCPU · 3 ps n1-highmem-8"


def test_what_was_left_out_in_short() -> None:
    assert without(["a/__pycache__"]) == without([]) == ""
    assert without([".git", "x/__pycache__", "venv"]) == " (without .git, venv)"
    assert without(list("abcdef")) == " (without a, b, c, d and 2 more)"


def test_mistakes_are_told_with_their_lines_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("labels: {}\ntrainingInput:\n  scaleTier: X\n  region: Y\n")
    file = read_job_file(path)
    error = BadSpec([Violation("region", "b"), Violation("scale_tier", "a"), Violation("job.job_id", "c")], fix="f")
    told = located(error, file)
    assert isinstance(told, BadSpec) and told.fix == "f"
    assert [v.field.removeprefix(f"{path}:") for v in told.violations] == ["job.job_id", "3 scale_tier", "4 region"]
    assert located(error, None) is error
    other = NotFound("x")
    assert located(other, file) is other
