"""Files that a command writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.cli.files import check_writable, write
from stoker.core.errors import BadSpec


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    for text in ("first", "ünd dann\n", "half of a character: \ud800"):
        check_writable(path, "--report")
        write(path, text)
    assert path.read_text() == "half of a character: ?" and [found.name for found in tmp_path.iterdir()] == [
        "page.html"
    ]


def test_nothing_to_write_is_fine() -> None:
    check_writable(None, "--report")


@pytest.mark.parametrize(
    ("name", "said"), [("", "is a folder"), ("no/such", "there is no folder"), ("pipe", "cannot be written")]
)
def test_where_no_file_can_be(tmp_path: Path, name: str, said: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadSpec, match=said):
        check_writable(tmp_path / name, "--report")


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(BadSpec, match="cannot be written"):
        write(tmp_path / "taken", "x")
    assert [found.name for found in tmp_path.iterdir()] == ["taken"]
