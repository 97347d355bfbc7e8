"""A wheel of nothing but requirements."""

from __future__ import annotations

import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from stoker.client.requirements_wheel import make_wheel, requirements_of
from stoker.core.errors import BadSpec


def a_trainer(folder: Path, **files: str) -> Path:
    """A trainer package in a folder, with files beside it."""
    (folder / "trainer").mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder / "trainer"


def test_the_file_beside_the_package_counts_unless_a_setup_or_another_file_is_there(tmp_path: Path) -> None:
    trainer = a_trainer(tmp_path, requirements_txt="cowsay<7  # a cow\n\nrich==13.0 --hash=sha256:00\n")
    assert requirements_of(trainer, [], []) == (("cowsay<7", "rich==13.0"), "requirements.txt")
    assert requirements_of(trainer, [], ["six"]) == (("cowsay<7", "rich==13.0", "six"), "requirements.txt and --with")
    (tmp_path / "other.in").write_text("six\n")
    assert requirements_of(trainer, [tmp_path / "other.in"], []) == (("six",), "other.in")
    (tmp_path / "setup.py").write_text("")
    assert requirements_of(trainer, [], []) == ((), "")
    assert requirements_of(None, [], ["six"]) == (("six",), "--with")


@pytest.mark.parametrize("line", ["--index-url http://127.0.0.1/simple", "./mine", "-e .", "", "a\nb"])
def test_what_no_metadata_can_say_is_refused_where_it_was_asked_for(tmp_path: Path, line: str) -> None:
    trainer = a_trainer(tmp_path, requirements_txt=f"{line}\nsix\n")
    with pytest.raises(BadSpec, match="--with"):
        requirements_of(None, [], [line])
    if line.startswith(("-", ".")):
        with pytest.raises(BadSpec, match=r"requirements\.txt"):
            requirements_of(None, [tmp_path / "requirements.txt"], [])
        lines, whose = requirements_of(trainer, [], [])
        assert "six" in lines or whose.startswith("requirements.txt is left out: "), "nobody has named that file"
        assert line in whose


def test_a_file_that_nobody_has_named_and_nobody_can_read_is_let_be(tmp_path: Path) -> None:
    trainer = a_trainer(tmp_path)
    (tmp_path / "requirements.txt").write_bytes("six\n".encode("utf-16"))
    lines, whose = requirements_of(trainer, [], [])
    assert lines == () and whose.startswith("requirements.txt is left out: ")
    with pytest.raises(BadSpec):
        requirements_of(trainer, [tmp_path / "requirements.txt"], [])


def test_the_same_lines_make_the_same_wheel(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    first = make_wheel(("cowsay<7", "rich[jupyter]; python_version > '3'"), tmp_path / "a")
    second = make_wheel(("cowsay<7", "rich[jupyter]; python_version > '3'"), tmp_path / "b")
    assert first.name == second.name and first.read_bytes() == second.read_bytes()
    assert make_wheel(("cowsay<8",), tmp_path / "c").name != first.name
    with zipfile.ZipFile(first) as archive:
        info = next(name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = Parser().parsestr(archive.read(info).decode())
    assert metadata.get_all("Requires-Dist") == ["cowsay<7", "rich[jupyter]; python_version > '3'"]
