"""The real `gcloud storage`, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = [
    pytest.mark.live,
    pytest.mark.campaign,
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed"),
]
FLAGS = ("--no-auth", "--hold")
B = "gs://by-gcloud"

Gcloud = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def gcloud(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Gcloud:
    """Runs `gcloud storage …` against the server."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path_factory.mktemp("gcloud")),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "p",
        "CLOUDSDK_CONFIG": str(tmp_path_factory.mktemp("config")),
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
    }

    def run(*words: str, succeeds: bool = True, path: str = "") -> subprocess.CompletedProcess[str]:
        endpoint = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{server.found.url}/{path}"}
        ended = subprocess.run(
            ["gcloud", "storage", *words], env=environment | endpoint, capture_output=True, text=True, timeout=120
        )
        assert (ended.returncode == 0) == succeeds, ended.stderr
        return ended

    return run


def test_copy_list_show_and_remove(gcloud: Gcloud, server: Server, tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("hello\n")
    (tmp_path / "large").write_bytes(os.urandom(12 << 20))  # over 8 MiB: in chunks
    gcloud("cp", str(tmp_path / "small.txt"), f"{B}/d/small.txt")
    gcloud("cp", str(tmp_path / "large"), f"{B}/d/")
    assert (server.home / "buckets/gs/by-gcloud/d/large").read_bytes() == (tmp_path / "large").read_bytes()
    assert gcloud("cat", f"{B}/d/small.txt").stdout == "hello\n"
    assert gcloud("ls", f"{B}/d/").stdout.split() == [f"{B}/d/large", f"{B}/d/small.txt"]
    gcloud("cp", f"{B}/d/large", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()
    refused = gcloud("cp", "--if-generation-match=0", str(tmp_path / "small.txt"), f"{B}/d/small.txt", succeeds=False)
    assert "no object was expected" in refused.stderr
    gcloud("rm", "-r", f"{B}/d")
    assert "matched no objects" in gcloud("ls", f"{B}/d/", succeeds=False).stderr


def test_the_endpoint_may_have_its_path(gcloud: Gcloud, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    gcloud("cp", str(tmp_path / "a"), f"{B}/by-path", path="storage/v1/")
    gcloud("cp", f"{B}/by-path", str(tmp_path / "back"), path="storage/v1/")
    assert (tmp_path / "back").read_text() == "content"


def test_folders_are_synchronised(gcloud: Gcloud, server: Server, tmp_path: Path) -> None:
    for name in ("a/1", "a/b/2", "empty"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(name if name != "empty" else "")
    (tmp_path / "back").mkdir()
    gcloud("rsync", "-r", "--delete-unmatched-destination-objects", str(tmp_path / "tree"), f"{B}/tree")
    (server.home / "buckets/gs/by-gcloud/tree/a/1").write_text("!/1")  # a program writes, of the same size
    gcloud("rsync", "-r", f"{B}/tree", str(tmp_path / "back"))
    assert sorted(
        p.relative_to(tmp_path / "back").as_posix() for p in (tmp_path / "back").rglob("*") if p.is_file()
    ) == [
        "a/1",
        "a/b/2",
        "empty",
    ]
    assert (tmp_path / "back/a/1").read_text() == "!/1"
    gcloud("mv", f"{B}/tree/a/1", f"{B}/tree/moved")
    assert gcloud("cat", f"{B}/tree/moved").stdout == "!/1"
