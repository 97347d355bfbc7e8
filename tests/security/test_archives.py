"""Archives: CPython CVE-2025-4517, -4330, -4138 (tarfile's filters), ClearML CVE-2025-8917, TorchServe's zip slip, zip bombs.

We unpack zips alone, by our own hand; of tars, which the installer unpacks, every member is looked at first.
"""

from __future__ import annotations

import ast
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.runtime import archive
from stoker.runtime.archive import BadArchive, check_package, unpack_source

SOURCE = Path(__file__).parents[2] / "src" / "stoker"
NAMES = [
    "../x",
    "a/../../x",
    "/x",
    "//x",
    "\\x",
    "..\\x",
    "a\\..\\..\\x",
    "C:x",
    "c:/x",
    "a/..",
    "..",
    "~/../../x",
    "./../x",
]


def a_zip(path: Path, *members: tuple[str, bytes, int]) -> str:
    """(name, content, mode)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, content)
    return str(path)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    path = a_zip(tmp_path / "a.zip", ("fine.txt", b"x", 0o644), (name, b"planted", 0o644))
    with pytest.raises(BadArchive, match="outside"):
        unpack_source(path, str(tmp_path / "below" / "target"))
    assert everything(tmp_path) == ["a.zip"], "it is looked through before anything is unpacked"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path = a_zip(tmp_path / "a.zip", ("link", b"/etc", stat.S_IFLNK | 0o777), ("link/x", b"planted", 0o644))
    with pytest.raises(BadArchive, match="link"):
        unpack_source(path, str(tmp_path / "target"))
    assert everything(tmp_path) == ["a.zip"]


def test_a_file_where_a_folder_is_to_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = a_zip(tmp_path / "a.zip", ("a", b"1", 0o644), ("a/b", b"2", 0o644))
    with pytest.raises(BadArchive, match="not a readable package"):
        unpack_source(path, str(tmp_path / "target"))


def test_no_bit_of_its_mode_makes_a_file_more_than_executable(tmp_path: Path) -> None:
    unpack_source(a_zip(tmp_path / "a.zip", ("x", b"#!", stat.S_IFREG | 0o6777)), str(tmp_path / "target"))
    assert stat.S_IMODE((tmp_path / "target" / "x").stat().st_mode) == 0o755


KINDS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/" * 300 + "../" * 301 + "x"])
def test_a_tar_holds_files_and_folders(tmp_path: Path, kind: bytes, target: str) -> None:
    """CVE-2025-4517 led out by a link whose target was too long to be resolved: here no link passes, wherever it leads."""
    info = tarfile.TarInfo("p/a")
    info.type, info.linkname = kind, target
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as made:
        made.addfile(info)
    if kind == tarfile.CONTTYPE:  # it is read as a file
        check_package(str(tmp_path / "a.tar.gz"))
    else:
        with pytest.raises(BadArchive, match="holds a"):
            check_package(str(tmp_path / "a.tar.gz"))


def large_tar(path: Path) -> None:
    info = tarfile.TarInfo("a")
    info.size = archive.MOST_BYTES + 1
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT))


def test_more_than_there_may_be_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    large_tar(tmp_path / "a.tar")
    with pytest.raises(BadArchive, match="more than"):
        check_package(str(tmp_path / "a.tar"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for number in range(6):
            made.writestr(f"{number}", b"")
    raw = content.getvalue()
    for at in [n for n in range(len(raw)) if raw[n : n + 4] == b"PK\x01\x02"]:  # each says that it holds nearly 4 GiB
        raw = raw[: at + 24] + (0xFFFFFFF0).to_bytes(4, "little") + raw[at + 28 :]
    (tmp_path / "bomb.zip").write_bytes(raw)
    with pytest.raises(BadArchive, match="more than"):
        unpack_source(str(tmp_path / "bomb.zip"), str(tmp_path / "target"))
    assert not (tmp_path / "target").exists()


def test_what_a_member_says_of_its_size_is_all_that_is_taken(tmp_path: Path) -> None:
    """One that says less than it holds is cut off, or refused: what was counted is what is written."""
    path = Path(a_zip(tmp_path / "a.zip", ("a", bytes(1 << 20), 0o644)))
    content = bytearray(path.read_bytes())
    at = content.rfind(b"PK\x01\x02")
    content[at + 24 : at + 28] = (10).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(BadArchive):
        unpack_source(str(path), str(tmp_path / "target"))
    assert sum(p.stat().st_size for p in (tmp_path / "target").rglob("*")) <= 10


def damaged(change: Callable[[bytearray], None]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.py", b"print(1)\n" * 100)
    content = bytearray(made.getvalue())
    change(content)
    return bytes(content)


def _flag_encrypted(content: bytearray) -> None:
    content[6] |= 1
    content[content.rfind(b"PK\x01\x02") + 8] |= 1


def _odd_method(content: bytearray) -> None:
    content[8:10] = content[content.rfind(b"PK\x01\x02") + 10 :][:2] = b"\x63\x00"
    content[content.rfind(b"PK\x01\x02") + 10] = 0x63


def _bad_sum(content: bytearray) -> None:
    content[content.rfind(b"PK\x01\x02") + 16] ^= 0xFF


def _bad_data(content: bytearray) -> None:
    content[40:60] = bytes(20)


@pytest.mark.parametrize("change", [_flag_encrypted, _odd_method, _bad_sum, _bad_data])
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, change: Callable[[bytearray], None]) -> None:
    (tmp_path / "a.zip").write_bytes(damaged(change))
    with pytest.raises(BadArchive, match="not a readable package"):
        unpack_source(str(tmp_path / "a.zip"), str(tmp_path / "target"))


def test_nobody_else_unpacks_anything() -> None:
    """A third place that unpacks would need all this a third time. Backups have theirs in tests/store/test_backup.py."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            if name in ("extractall", "extract", "unpack_archive", "extractfile"):
                found.add(path.relative_to(SOURCE).as_posix())
    assert found == {"runtime/archive.py", "store/restore.py"}
