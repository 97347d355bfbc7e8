"""Files below one folder in which programs do as they like meanwhile: neither a link nor a rename leads a name out of it.

To check a path and then to use it is a race: between the two a program swaps a folder for a link (renameat2 does so in one step),
and the server, which may be root, opens what the link leads to. So the system is never given a path of more than one step. Each
step is taken from the descriptor of the folder before it and follows no link; links that stay inside are followed here, by the
same steps. What is opened is a regular file, and nobody waits for it: a FIFO is not a file of anybody's.

With way.py, this is all that opens what lies in a bucket or a job's directory (tests/security/test_one_opener.py).
"""

from __future__ import annotations

import copy
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stoker.core.errors import BadSpec
from stoker.runtime.no_links import open_folder, walk
from stoker.runtime.umask import opened

from .names import is_part, part_name, steps_of
from .way import GO_THROUGH, Way

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_READ, _WRITE = 0o4, 0o2


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder holds."""

    name: str
    is_folder: bool
    is_link: bool
    is_file: bool


class Root:
    """A folder, and what lies below it by name: parts with `/` between, of which none is `..`."""

    def __init__(self, path: Path, *, user: int | None = None) -> None:
        """`path` may lead through links of the admin's: they count as they are now, not as somebody changes them later.

        `user`: open only what this user of the machine could read; None: whatever the server can.
        """
        self.path = path
        self._real = os.path.realpath(path)
        self._user = user
        self._held: int | None = None  # a descriptor of the folder, where it is held open

    def shown(self, name: str) -> str:
        """The path of a name, for a program or a person. What opens it takes the steps again, as whoever it is."""
        return str(self.path.joinpath(*steps_of(name)))

    def check(self, name: str) -> None:
        """Raise BadSpec if a name leads out, as things stand."""
        with suppress(OSError), self._folder_of(name):
            pass

    def stat(self, name: str) -> os.stat_result:
        """What is there by this name. Raises OSError, or BadSpec if a link leads out."""
        with self._folder_of(name) as (folder, last):
            return os.stat(last, dir_fd=folder, follow_symlinks=False)

    def stats(self, names: Iterable[str]) -> dict[str, os.stat_result | None]:
        """What is there by these names, None where nothing is. Quick for neighbours: their folder is looked up once."""
        found: dict[str, os.stat_result | None] = {}
        by_folder: dict[str, list[str]] = {}
        for name in names:
            by_folder.setdefault(name.rstrip("/").rpartition("/")[0], []).append(name)
        for above, below in by_folder.items():
            if len(below) == 1:
                found[below[0]] = self._stat_or_none(below[0])
                continue
            try:
                with self._folder(above) as folder:
                    for name in below:
                        found[name] = self._stat_here(folder, name)
            except (OSError, BadSpec):
                found.update(dict.fromkeys(below))
        return found

    def is_file(self, name: str) -> bool:
        """Whether there is a regular file by this name."""
        found = self._stat_or_none(name)
        return found is not None and stat.S_ISREG(found.st_mode)

    def is_folder(self, name: str) -> bool:
        """Whether there is a folder by this name."""
        found = self._stat_or_none(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def open(self, name: str) -> IO[bytes]:
        """Open a regular file for reading. Raises OSError for what is none, or not there."""
        with self._folder_of(name) as (folder, last):
            return self._opened(os.open(last, os.O_RDONLY | _OPEN, dir_fd=folder), "rb")

    def open_to_write(self, name: str) -> IO[bytes]:
        """Open a regular file for reading and writing, from its beginning. It and its folders are made if they are not there."""
        with self._folder_of(name, make=True) as (folder, last):
            try:
                descriptor = _made(last, folder, os.O_RDWR)
            except FileExistsError:
                descriptor = os.open(last, os.O_RDWR | _OPEN, dir_fd=folder)
            return self._opened(descriptor, "r+b")

    @contextmanager
    def replacing(self, name: str) -> Iterator[IO[bytes]]:
        """Write a file: all of it appears at once when the block ends well, nothing if it does not.

        Until then it is in a hidden file of the folder that was there at the beginning, wherever that is moved to meanwhile.
        """
        with self._folder_of(name, make=True, follow=False) as (folder, last):
            part = part_name(last)
            try:
                self._check_user(os.fstat(folder), _WRITE)
                with self._opened(_made(part, folder, os.O_WRONLY, self._user), "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, last, src_dir_fd=folder, dst_dir_fd=folder)
                _sync(folder)
            finally:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)

    @contextmanager
    def below(self, name: str, *, make: bool = False) -> Iterator[Root]:
        """The folder of a name as a root of its own, held open: no link leads to it, and none in it leads out.

        `make`: it is made if need be. Raises OSError.
        """
        held = copy.copy(self)
        held._held = open_folder(os.path.join(self._real, *steps_of(name)), make=opened(0o777) if make else None)
        try:
            yield held
        finally:
            os.close(held._held)

    @contextmanager
    def folder_of(self, name: str) -> Iterator[tuple[Root, str]]:
        """The folder of a name as a root of its own, and the name there. It is held open, wherever it is moved to meanwhile."""
        with self._folder_of(name, make=True, follow=False) as (folder, last):
            held = copy.copy(self)
            held._held = folder
            yield held, last

    def entries(self, name: str) -> list[Entry]:
        """What is in a folder. Raises OSError."""
        with self._folder(name) as folder:
            self._check_user(os.fstat(folder), _READ)
            descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
            try:
                with os.scandir(descriptor) as entries:
                    return [
                        Entry(
                            entry.name,
                            entry.is_dir(follow_symlinks=False),
                            entry.is_symlink(),
                            entry.is_file(follow_symlinks=False),
                        )
                        for entry in entries
                    ]
            finally:
                os.close(descriptor)

    def make_folder(self, name: str) -> None:
        """Make a folder, and those above it, if they are not there."""
        with self._folder(name, make=True):
            pass

    def rename(self, name: str, to: str, *, source: Root | None = None) -> None:
        """Give a file another name; what had that is replaced. A link is renamed and replaced itself. Raises OSError.

        `source`: the root in which its old name is, if it is not this one.
        """
        with (
            (source or self)._folder_of(name, follow=False) as (above, old),
            self._folder_of(to, make=True, follow=False) as (target, new),
        ):
            os.replace(old, new, src_dir_fd=above, dst_dir_fd=target)

    def unlink(self, name: str) -> None:
        """Remove a file, or a link itself. Raises OSError."""
        with self._folder_of(name, follow=False) as (folder, last):
            os.unlink(last, dir_fd=folder)

    def remove_folder(self, name: str) -> None:
        """Remove a folder that is empty. Raises OSError."""
        with self._folder_of(name, follow=False) as (folder, last):
            os.rmdir(last, dir_fd=folder)

    def remove_empty_folders(self, name: str) -> None:
        """Remove the folders below a folder that hold no files, and it itself if nothing is left in it."""
        with self._folder(name) as top:
            for found in walk(top, deepest_first=True):
                for folder in found.folders:
                    with suppress(OSError):
                        os.rmdir(folder, dir_fd=found.descriptor)
        with suppress(OSError):
            if steps_of(name):
                self.remove_folder(name)
            else:
                os.rmdir(self._real)

    def walk(self, name: str) -> Iterator[tuple[str, os.stat_result]]:
        """The regular files below a folder, or the file itself (as ""); those being written are none. Follows no link there.

        Raises OSError for what cannot be read: a list that lacks something would be taken for one of what is there.
        """
        try:
            if self.is_file(name):
                yield "", self.stat(name)
                return
            with self._folder(name) as top:
                for folder in walk(top):
                    self._check_user(os.fstat(folder.descriptor), _READ)
                    for file, found in folder.entries.items():
                        if stat.S_ISREG(found.st_mode) and not is_part(file):
                            yield f"{folder.path}/{file}" if folder.path else file, found
        except (FileNotFoundError, NotADirectoryError):
            return

    def remove(self, name: str) -> None:
        """Remove a file, a link itself, or a folder with all that is in it; nothing if it is not there. Raises OSError."""
        try:
            with self._folder_of(name, follow=False) as (folder, last):
                self._check_user(os.fstat(folder), _WRITE)
                if not stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.unlink(last, dir_fd=folder)
                    return
                top = os.open(last, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=folder)
                try:
                    for found in walk(top, deepest_first=True):
                        self._check_user(os.fstat(found.descriptor), _WRITE)
                        for file in found.entries:
                            os.unlink(file, dir_fd=found.descriptor)
                        for below in found.folders:
                            os.rmdir(below, dir_fd=found.descriptor)
                finally:
                    os.close(top)
                os.rmdir(last, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return

    def sync_folder_of(self, name: str) -> None:
        """Make durable which files the folder of a name has; what is in them is synced by who writes them."""
        with self._folder_of(name, follow=False) as (folder, _):
            _sync(folder)

    def _top(self, make: bool) -> int:
        return (
            os.dup(self._held)
            if self._held is not None
            else open_folder(self._real, make=opened(0o777) if make else None)
        )

    def _stat_or_none(self, name: str) -> os.stat_result | None:
        try:
            return self.stat(name)
        except (OSError, BadSpec):
            return None

    def _stat_here(self, folder: int, name: str) -> os.stat_result | None:
        """What is there by a name whose folder is open. A link is looked up by its steps."""
        try:
            found = os.stat(name.rstrip("/").rpartition("/")[2] or ".", dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return self._stat_or_none(name) if stat.S_ISLNK(found.st_mode) else found

    def _opened(self, descriptor: int, mode: str) -> IO[bytes]:
        """The file of a descriptor, if it is a regular one, and the user's to read. Raises OSError."""
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a regular file")
            self._check_user(found, _READ)
            return os.fdopen(descriptor, mode)
        except BaseException:
            os.close(descriptor)
            raise

    def _check_user(self, found: os.stat_result, may: int) -> None:
        """Raise PermissionError if our user may not. `may`: a bit of the mode. A job's user is in no group but its own."""
        if self._user is None:
            return
        shift = 6 if found.st_uid == self._user else 3 if found.st_gid == self._user else 0
        if not found.st_mode >> shift & may:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    @contextmanager
    def _folder(self, name: str, *, make: bool = False) -> Iterator[int]:
        """The folder of a name itself, open. `make`: it is made if need be. Raises OSError, or BadSpec for a link out."""
        with self._way(name, make) as way:
            way.go(leaving=0)
            self._check_user(os.fstat(way.here), GO_THROUGH)
            yield way.here

    @contextmanager
    def _folder_of(self, name: str, *, make: bool = False, follow: bool = True) -> Iterator[tuple[int, str]]:
        """The folder that a name lies in, open, and what the name is there: no link, unless somebody has put one just now.

        `make`: folders on the way are made. `follow`: also a link that the name itself is. Raises OSError, or BadSpec for a link
        out.
        """
        with self._way(name, make) as way:
            way.go(leaving=1)
            while follow and way.parts and way.follow(way.parts[0]):
                way.go(leaving=1)
            self._check_user(os.fstat(way.here), GO_THROUGH)
            yield way.here, way.parts[0] if way.parts else "."

    @contextmanager
    def _way(self, name: str, make: bool) -> Iterator[Way]:
        paths = () if self._held is not None else (self._real, str(self.path))
        steps_of(name)  # what is not a name is refused before anything is opened
        way = Way(name, self._top(make), paths, make, self._check_user, self._user)
        try:
            yield way
        finally:
            way.close()


def _made(name: str, folder: int, how: int, user: int | None = None) -> int:
    """A new file, open, for whom the umask that programs have lets read it. Raises FileExistsError. `user`: whose it is."""
    descriptor = os.open(name, how | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=folder)
    os.fchmod(descriptor, opened(0o666))
    if user is not None:
        os.fchown(descriptor, user, user)
    return descriptor


def _sync(folder: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
