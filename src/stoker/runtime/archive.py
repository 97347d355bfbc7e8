"""Archives from users: looked through before anything is unpacked. Files and folders only, inside the target, within limits."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
import zipfile
from typing import Iterator, Tuple

from .errors import CannotStart

MOST_MEMBERS = 200_000
MOST_BYTES = 20 << 30
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE)


class BadArchive(CannotStart):
    """The archive holds something that must not be unpacked, or is none."""


def check_package(path: str) -> None:
    """Look through an sdist or wheel. Links are refused too: an sdist has no use for them that a copy does not serve."""
    size = count = 0
    for name, kind, member_bytes in _members(path):
        count += 1
        size += member_bytes
        if kind not in ("file", "folder"):
            raise BadArchive(f"{os.path.basename(path)} holds a {kind} ({name!r}); only files and folders are unpacked")
        if not is_inside(name):
            raise BadArchive(f"{os.path.basename(path)} holds {name!r}, which points outside of it")
        if count > MOST_MEMBERS or size > MOST_BYTES:
            raise BadArchive(
                f"{os.path.basename(path)} unpacks to more than {MOST_MEMBERS} files or {MOST_BYTES >> 30} GiB"
            )


def unpack_source(path: str, target: str) -> None:
    """Unpack the zip of a user's folder."""
    check_package(path)
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                archive.extract(info, target)
                mode = info.external_attr >> 16
                if mode & 0o100:  # what was executable stays so; zipfile forgets it
                    os.chmod(os.path.join(target, info.filename), 0o755)
    except Exception as error:  # a password, a packing of its own, a sum that is wrong, a file where a folder is to be
        if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
            raise
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> BadArchive:
    return BadArchive(f"{os.path.basename(path)} is not a readable package: {error or type(error).__name__}")


def is_inside(name: str) -> bool:
    """Whether a member's name stays below the folder it is unpacked to."""
    if not name or "\x00" in name or "\\" in name or name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return False
    return ".." not in name.split("/")


def _members(path: str) -> Iterator[Tuple[str, str, int]]:
    """(name, kind, size) of every member."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    link = stat.S_ISLNK(info.external_attr >> 16)
                    yield info.filename, "link" if link else "folder" if info.is_dir() else "file", info.file_size
        else:
            with tarfile.open(path) as tar:
                for member in tar:
                    yield member.name, _tar_kind(member), member.size
    except (
        Exception
    ) as error:  # whatever the readers stumble over: they raise a dozen kinds for bytes that somebody made up
        raise _unreadable(path, error) from error


def _tar_kind(member: tarfile.TarInfo) -> str:
    if member.isfile():
        return "file"
    if member.isdir():
        return "folder"
    return "link" if member.issym() or member.islnk() else "device"
