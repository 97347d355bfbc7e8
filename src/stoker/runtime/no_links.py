"""Paths that are taken step by step, each from the folder before it, so that nobody can put a link in between."""

from __future__ import annotations

import errno
import os
import stat
from typing import Dict, Iterator, List, NamedTuple, Optional

_PATH = getattr(os, "O_PATH", 0)
_TRIES = 20
_STEP = _PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DEEPEST = 200


def real_path(path: str) -> str:
    """Where a path leads, by what is there now. It is to be opened without links: what is there may change at any moment."""
    for _ in range(_TRIES):
        try:
            return os.path.realpath(path)
        except OSError:
            pass  # a link has become something else between two looks
    return os.path.abspath(path)


def open_path(path: str, *, to_read: bool = False) -> int:
    """A descriptor of a folder or file, of the caller's. Raises NotADirectoryError for a link on the way, and OSError.

    `to_read`: one that can be read from, and not only stands for it.
    """
    above, name = os.path.split(path)
    if not name:
        return open_folder(path)
    folder = open_folder(above)
    try:
        how = os.O_RDONLY | os.O_NONBLOCK if to_read else _PATH
        descriptor = os.open(name, how | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotADirectoryError(path)
    return descriptor


def open_folder(path: str, *, make: Optional[int] = None) -> int:
    """Open a folder. `make`: the mode to make it with, if it is not there. Returns a descriptor of the caller's.

    Folders above it that are not there either are made for all to enter. Raises OSError, also for a link.
    """
    parts = [part for part in path.split(os.sep) if part]
    descriptor = os.open(os.sep, _STEP)
    for i, part in enumerate(parts):
        above = descriptor
        try:
            try:
                descriptor = os.open(part, _STEP, dir_fd=above)
            except FileNotFoundError:
                if make is None:
                    raise
                descriptor = make_folder_at(part, make if i == len(parts) - 1 else 0o755, above)
        finally:
            os.close(above)
    return descriptor


class Found(NamedTuple):
    """A folder on a walk: by its path from the top on, with what is in it."""

    path: str  # empty: the top itself
    descriptor: int  # good until the next step of the walk
    entries: Dict[str, os.stat_result]  # of what is not a folder
    folders: List[str]  # those that are entered next; what is taken out is not


def walk(top: int, *, deepest_first: bool = False) -> Iterator[Found]:
    """Every folder below an open one, and it itself, whoever moves things about meanwhile.

    No link is followed, and nothing but folders is opened: a FIFO in the place of one keeps nobody waiting. What is gone is left
    out; what cannot be read raises OSError.
    """
    yield from _walk(os.open(".", _ENTER, dir_fd=top), "", 0, deepest_first)


def _walk(descriptor: int, path: str, depth: int, deepest_first: bool) -> Iterator[Found]:
    try:
        if depth > _DEEPEST:
            raise OSError(errno.ELOOP, f"{path[:80]}… is nested too deeply")
        entries: Dict[str, os.stat_result] = {}
        folders: List[str] = []
        for name in sorted(os.listdir(descriptor)):
            try:
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode):
                folders.append(name)
            else:
                entries[name] = found
        here = Found(path, descriptor, entries, folders)
        if not deepest_first:
            yield here
        for name in list(folders):
            try:
                below = os.open(name, _ENTER, dir_fd=descriptor)
            except (FileNotFoundError, NotADirectoryError):
                continue
            yield from _walk(below, f"{path}/{name}" if path else name, depth + 1, deepest_first)
        if deepest_first:
            yield here
    finally:
        os.close(descriptor)


def give_to(folder: str, user: int) -> None:
    """Make a folder a user's own, with all that is in it. Never through a link, whoever puts one there meanwhile.

    Files that have another name somewhere stay whose they are: the other name may be in a folder of somebody else's. What is
    looked at is what is given, by its descriptor; what is mounted there is left alone.
    """
    top = open_folder(folder)
    try:
        device = os.fstat(top).st_dev
        for found in walk(top):
            found.folders[:] = [name for name in found.folders if _device(name, found.descriptor) == device]
            os.chown(found.descriptor, user, user)
            for name, seen in found.entries.items():
                try:
                    if seen.st_uid != user:
                        _give_file(name, found.descriptor, user, device)
                except FileNotFoundError:
                    pass  # it has just been removed
    finally:
        os.close(top)


def make_folder_at(name: str, mode: int, above: int) -> int:
    """A folder that was not there. The mode is this one, whatever the umask."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        return os.open(name, _STEP, dir_fd=above)
    descriptor = os.open(name, _STEP, dir_fd=above)
    os.chmod(f"/proc/self/fd/{descriptor}", mode) if _PATH else os.fchmod(descriptor, mode)
    return descriptor


def _give_file(name: str, folder: int, user: int, device: int) -> None:
    if not _PATH:
        os.chown(name, user, user, dir_fd=folder, follow_symlinks=False)
        return
    descriptor = os.open(name, _PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if found.st_nlink == 1 and found.st_dev == device and not stat.S_ISLNK(found.st_mode):
            os.chown(f"/proc/self/fd/{descriptor}", user, user)
    finally:
        os.close(descriptor)


def _device(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_dev
    except OSError:
        return -1
