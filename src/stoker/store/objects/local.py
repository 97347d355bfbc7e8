"""A bucket that is a folder of this machine. Programs write into it behind our back, and are right: the files are the truth."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from stoker.core.errors import BadSpec, NotFound, Unavailable, Violation
from stoker.runtime.umask import make_open_folder
from stoker.store.files import is_part, part_path, resolve, sync_folder, write_errors
from stoker.store.room import Room

from .bucket import Listing
from .hashes import Hasher, Hashes
from .listing import Walk, Wanted, page
from .object import Asked, Conditions, Object, Said, Stamp
from .parts import LocalPart, Part
from .records import Records

LONGEST_NAME_BYTES = 1024
_UNQUIET_NS = 100_000_000
"""A file that was written so shortly ago may be written again without its time changing: its hashes are not kept."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all buckets of this machine have together."""

    records: Records
    room: Room
    hasher: Hasher = field(default_factory=Hasher)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while files and records change together, never while bytes come or go."""


class LocalBucket:
    """Implements Bucket on a folder."""

    def __init__(self, name: str, root: Path, shared: Shared) -> None:
        self.name = name
        self.root = root
        self._records, self._hasher, self._lock = shared.records, shared.hasher, shared.lock
        self._room = shared.room

    def changed_ns(self) -> int:
        """When the folder last changed; 0 if nothing was ever written to it."""
        try:
            return self.root.stat().st_mtime_ns
        except OSError:
            return 0

    def stat(self, name: str, *, hash_seconds: float = 0.0) -> Object:
        """An object. Its hashes are there if they are known, or can be computed in that time. Raises NotFound."""
        path = self._path(name)
        return self._hashed(self._find(name, path), path, hash_seconds)

    def find(self, name: str) -> Object | None:
        """An object, or None."""
        try:
            return self.stat(name)
        except NotFound:
            return None

    @contextmanager
    def read(self, name: str, *, hash_seconds: float = 0.0) -> Iterator[tuple[Object, IO[bytes]]]:
        """Open an object: what it is, and its bytes, of one moment; with its CRC32C if there was time. Raises NotFound."""
        path = self._path(name)
        while True:
            found = self._find(name, path)
            with self._open(found, path) as file:
                stamp = _stamp_of(os.fstat(file.fileno()))
                if name.endswith("/") or stamp == found.stamp:
                    yield self._hashed(found, path, hash_seconds, md5=False), file
                    return
                if stamp.inode == found.stamp.inode:  # somebody writes to it just now: it is what it is
                    yield replace(found, stamp=stamp, hashes=Hashes()), file
                    return
            # It has been replaced between our look and our opening it: look again.

    def list(self, wanted: Wanted, *, hash_seconds: float = 0.0) -> Listing:
        """A page of objects and common prefixes."""
        folders = self._records.folders(self.name)
        names = page(Walk(self.root, wanted, folders).names(), wanted, folders)
        paths = {name: self.root.joinpath(name) for name in names.names}
        until = time.monotonic() + hash_seconds
        objects = [
            self._hashed(found, paths[name], until - time.monotonic()) for name, found in self._look(paths).items()
        ]
        return Listing(objects, names.prefixes, names.next)

    @contextmanager
    def write(self, name: str) -> Iterator[Part]:
        """A place for the bytes of an object, which is gone afterwards. Raises BadSpec for a name that cannot be written."""
        part = self.begin(name, self.root)
        try:
            yield part
        finally:
            part.drop()

    def begin(self, name: str, spool: Path) -> LocalPart:
        """A place that stays. It is beside the object and not in `spool`, so that a rename is all that is left to do."""
        path = self._path_to_write(name)
        self._room.check(self.root, "uploads")
        with write_errors(self._uri(name)):
            if path.is_dir() and self._has_below(name):
                raise IsADirectoryError  # now, and not when all of it has come
        return LocalPart(part_path(path), self._uri(name))

    def commit(self, part: Part, asked: Asked) -> Object:
        """Make the object of what has come, all of it at once. Raises BadSpec or PreconditionFailed: then nothing has changed."""
        assert isinstance(part, LocalPart)
        asked.hashes.check(part.hashes)
        path = self._path_to_write(asked.name)
        if asked.name.endswith("/") and part.size:
            problem = "a name that ends in '/' stands for a folder, which has no content of its own"
            raise BadSpec([Violation("name", problem)])
        part.sync()
        with write_errors(self._uri(asked.name)), self._lock:
            before = self._look({asked.name: path}).get(asked.name)
            asked.conditions.check(before)
            if asked.name.endswith("/"):
                make_open_folder(path)
                stamp = Stamp(0, time.time_ns())
            else:
                stamp = _stamp_of(part.path.stat())
                self._put_in_place(part.path, path, asked.name)
            made = Object(
                bucket=self.name,
                name=_key(asked.name),
                stamp=stamp,
                generation=self._next_generation(before),
                said=asked.said,
                hashes=part.hashes,
            )
            self._records.put([made])
        sync_folder(path.parent)
        return replace(made, name=asked.name)

    def say(self, name: str, change: Callable[[Said], Said], conditions: Conditions) -> Object:
        """Change what is said of an object. Raises NotFound or PreconditionFailed."""
        path = self._path(name)
        with self._lock:
            found = self._find(name, path)
            conditions.check(found)
            changed = replace(
                found,
                name=_key(name),
                said=change(found.said),
                metageneration=found.metageneration + 1,
                updated_ns=time.time_ns(),
            )
            self._records.put([changed])
        return self.stat(name)

    def delete(self, name: str, conditions: Conditions) -> None:
        """Remove an object; its folder stays: a program may be about to write there. Raises NotFound or PreconditionFailed."""
        path = self._path(name)
        with write_errors(self._uri(name)), self._lock:
            conditions.check(self._find(name, path))
            if name.endswith("/"):
                with suppress(OSError):
                    path.rmdir()
            else:
                path.unlink(missing_ok=True)
            self._records.remove(self.name, _key(name))

    def move(self, name: str, to: str, *, source: Conditions, target: Conditions) -> Object:
        """Give an object another name, with all that is known of it. Raises NotFound or PreconditionFailed."""
        path, new_path = self._path(name), self._path_to_write(to)
        if name.endswith("/") or to.endswith("/"):
            raise BadSpec([Violation("name", "what stands for a folder cannot be moved")])
        with write_errors(self._uri(to)), self._lock:
            found, before = self._find(name, path), self._look({to: new_path}).get(to)
            source.check(found)
            target.check(before)
            make_open_folder(new_path.parent)
            self._put_in_place(path, new_path, to)
            self._records.remove(self.name, _key(name))
            moved = replace(found, name=_key(to), generation=self._next_generation(before), metageneration=1)
            self._records.put([moved])
        sync_folder(new_path.parent)
        sync_folder(path.parent)
        return replace(moved, name=to)

    def _uri(self, name: str) -> str:
        return f"gs://{self.name}/{name}"

    def _path(self, name: str) -> Path:
        """The path of an object. Raises NotFound for names that none can have."""
        try:
            return self._path_to_write(name)
        except BadSpec as error:
            if is_part(name.rpartition("/")[2]):
                raise NotFound(f"no object {self._uri(name)}") from None
            raise error

    def _path_to_write(self, name: str) -> Path:
        """The path of an object. Raises BadSpec."""
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            length = 0
        if not 0 < length <= LONGEST_NAME_BYTES:
            raise BadSpec([Violation("name", f"a name has 1 to {LONGEST_NAME_BYTES} bytes of UTF-8")])
        if is_part(name.rpartition("/")[2]):
            problem = f"{name[-80:]!r} is how files are called here that are still being written"
            raise BadSpec([Violation("name", problem)])
        return resolve(self.root, name)

    def _find(self, name: str, path: Path) -> Object:
        found = self._look({name: path}).get(name)
        if found is None:
            raise NotFound(f"no object {self._uri(name)}")
        return found

    def _look(self, paths: Mapping[str, Path]) -> dict[str, Object]:
        """What is there of these names. What somebody else has written since we looked last is a new generation."""
        found: dict[str, Object] = {}
        new: list[Object] = []
        with self._lock:
            known = self._records.get(self.name, map(_key, paths))
            for name, path in paths.items():
                stamp, record = _stamp(path, is_folder=name.endswith("/")), known.get(_key(name))
                if stamp is None or (name.endswith("/") and record is None):
                    continue  # a folder is an object only if somebody said so
                if record is None or (record.stamp != stamp and not name.endswith("/")):
                    least = 1 if record is None else record.generation + 1
                    generation = max(stamp.mtime_ns // 1000, least)
                    record = Object(bucket=self.name, name=_key(name), stamp=stamp, generation=generation)
                    new.append(record)
                found[name] = replace(record, name=name)
            if new:
                self._records.put(new)
        return found

    def _hashed(self, found: Object, path: Path, seconds: float, *, md5: bool = True) -> Object:
        """The object with its hashes, if they can be computed in that time; they are kept."""
        known = found.hashes
        if seconds <= 0 or (known.crc32c and (known.md5 or not md5)):
            return found
        is_quiet = not 0 <= time.time_ns() - found.stamp.mtime_ns < _UNQUIET_NS
        try:
            with open(path, "rb") as file:
                hashes = self._hasher.hashes(file, (path, found.stamp), found.size, seconds=seconds, md5=md5)
                if hashes is None or _stamp_of(os.fstat(file.fileno())) != found.stamp:
                    return found
        except OSError:
            return found
        with self._lock:
            kept = self._records.get(self.name, [_key(found.name)]).get(_key(found.name))
            if is_quiet and kept is not None and kept.stamp == found.stamp:
                self._records.put([replace(kept, hashes=hashes)])
        return replace(found, hashes=hashes)

    def _open(self, found: Object, path: Path) -> IO[bytes]:
        try:
            return open(os.devnull if found.name.endswith("/") else path, "rb")
        except FileNotFoundError:
            raise NotFound(f"no object {self._uri(found.name)}") from None
        except OSError as error:
            raise Unavailable(f"{self._uri(found.name)} cannot be read: {error.strerror or error}") from error

    def _put_in_place(self, source: Path, path: Path, name: str) -> None:
        """Rename. A folder without objects is nothing to Cloud Storage, and gives way."""
        try:
            os.replace(source, path)
        except IsADirectoryError:
            if self._has_below(name):
                raise
            for folder, _, _ in os.walk(path, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)
            os.replace(source, path)

    def _has_below(self, name: str) -> bool:
        """Whether there are objects in the folder of this name."""
        if name.endswith("/"):
            return False
        wanted = Wanted(prefix=_key(name) + "/")
        return any(True for _ in Walk(self.root, wanted, self._records.folders(self.name)).names())

    def _next_generation(self, before: Object | None) -> int:
        return self._records.next_generation(max(time.time_ns() // 1000, before.generation + 1 if before else 1))


def _key(name: str) -> str:
    """The one name of a file: `a//b` leads to the same as `a/b`."""
    if "//" not in name:
        return name
    return "/".join(part for part in name.split("/") if part) + ("/" if name.endswith("/") else "")


def _stamp(path: Path, *, is_folder: bool) -> Stamp | None:
    """The stamp of a file, or of a folder; None if there is no such thing."""
    try:
        found = path.stat()
    except OSError:
        return None
    is_right = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    return _stamp_of(found) if is_right else None


def _stamp_of(found: os.stat_result) -> Stamp:
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ino & ((1 << 63) - 1))
