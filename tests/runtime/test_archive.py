"""Archives that must not be unpacked are not."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from stoker.runtime.archive import BadArchive, check_package, is_inside, unpack_source


def a_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return info


def test_files_and_folders_pass(tmp_path: Path) -> None:
    check_package(str(a_tar(tmp_path / "a.tar.gz", member("p", tarfile.DIRTYPE), member("p/a.py"))))


@pytest.mark.parametrize("name", ["../a", "p/../../a", "/etc/a", "p\\..\\a", "C:/a"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadArchive, match="outside"):
        check_package(str(a_tar(tmp_path / "a.tar.gz", member(name))))


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "device"),
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes, word: str) -> None:
    with pytest.raises(BadArchive, match=f"holds a {word}"):
        check_package(str(a_tar(tmp_path / "a.tar.gz", member("p/a", kind, "/etc/passwd"))))


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(BadArchive, match="link"):
        unpack_source(str(tmp_path / "a.zip"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off", b"\x1f\x8b cut off"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(BadArchive):
        check_package(str(tmp_path / "a.tar.gz"))


def test_a_source_is_unpacked_and_what_was_executable_stays_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("bin/run.sh")
        info.external_attr = 0o755 << 16
        archive.writestr(info, "#!/bin/sh\n")
        archive.writestr("train.py", "print(1)")
    unpack_source(str(tmp_path / "a.zip"), str(tmp_path / "out"))
    assert (tmp_path / "out/train.py").read_text() == "print(1)"
    assert (tmp_path / "out/bin/run.sh").stat().st_mode & 0o111


def test_is_inside() -> None:
    assert is_inside("a/b..c/d") and is_inside("...") and is_inside("a b")
    assert not any(is_inside(name) for name in ("", "a/..", "..", "/a", "a\x00", "\\\\host\\a"))
