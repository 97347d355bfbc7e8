"""The runtime as one file: named by content, standard library only, readable by Python 3.9."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stoker.runtime.zipapp import build


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    path = build(str(tmp_path))
    written = Path(path).stat().st_mtime_ns
    assert build(str(tmp_path)) == path
    assert Path(path).stat().st_mtime_ns == written


@pytest.mark.parametrize("where", [0, 40, 5_000, -30])
def test_one_that_is_damaged_is_packed_again(tmp_path: Path, where: int) -> None:
    path = Path(build(str(tmp_path)))
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[where] ^= 0x55
    for content in (bytes(damaged), whole[: len(whole) // 2], b""):
        path.write_bytes(content)
        assert build(str(tmp_path)) == str(path) and path.read_bytes()[:2] == b"PK"
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_it_runs_without_any_site_packages(tmp_path: Path) -> None:
    (tmp_path / "replica").mkdir()
    command = [sys.executable, "-I", "-S", build(str(tmp_path)), str(tmp_path / "replica")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert "request.json" in result.stderr, "it came as far as its folder, which is empty"


def test_every_file_in_it_is_python_3_9(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(str(tmp_path))) as archive:
        sources = [name for name in archive.namelist() if name.endswith(".py")]
        for name in sources:
            ast.parse(archive.read(name), name, feature_version=(3, 9))
    assert "stoker/runtime/supervise.py" in sources
