"""What is known of objects beyond their files: generations, hashes, what was said of them. A small SQLite file of its own.

A file that a program has changed, made or removed is the truth; a record whose stamp is another one than the file's is of an
earlier content. So nothing is wrong if this file is lost: hashes are computed again, and types are guessed from names.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stoker.core.errors import Unavailable
from stoker.store.rows import decode, encode

from .hashes import Hashes
from .object import Object, Said, Stamp

_VERSION = 1
_SCHEMA = """
    CREATE TABLE objects (
        bucket TEXT NOT NULL, name TEXT NOT NULL,
        size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
        generation INTEGER NOT NULL, metageneration INTEGER NOT NULL, updated_ns INTEGER NOT NULL,
        crc32c TEXT NOT NULL, md5 TEXT NOT NULL, said TEXT NOT NULL,
        PRIMARY KEY (bucket, name)
    ) WITHOUT ROWID;
    CREATE INDEX folders ON objects (bucket, name) WHERE substr(name, -1) = '/';
    CREATE INDEX generations ON objects (generation);
"""
# Names in one JSON text, so that one statement serves any number of them.
_GET = "SELECT * FROM objects WHERE bucket = ? AND name IN (SELECT value FROM json_each(?))"
_FOLDERS = "SELECT name FROM objects INDEXED BY folders WHERE bucket = ? AND substr(name, -1) = '/'"
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE bucket = ? AND name = ?"
_LAST = "SELECT coalesce(max(generation), 0) FROM objects"


class Records:
    """The records of all buckets. Safe to call from any thread."""

    def __init__(self, path: Path) -> None:
        """Raises Unavailable if the file cannot be used."""
        self._path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._db.close)
            self._db.row_factory = sqlite3.Row
            # NORMAL: a power cut may take the last records, never the files; it is not worth a sync for every upload.
            self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise sqlite3.DatabaseError(f"it is of version {version}, and this Stoker knows {_VERSION}")
            if version == 0:
                self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT")
            self._last = int(self._db.execute(_LAST).fetchone()[0])

    def get(self, bucket: str, names: Iterable[str]) -> dict[str, Object]:
        """The records of these names, as far as there are any."""
        with self._lock, self._errors():
            rows = self._db.execute(_GET, (bucket, json.dumps(list(names)))).fetchall()
        return {row["name"]: _object(row) for row in rows}

    def folders(self, bucket: str) -> frozenset[str]:
        """The objects that stand for folders: empty, their names end in `/`."""
        with self._lock, self._errors():
            return frozenset(row["name"] for row in self._db.execute(_FOLDERS, (bucket,)))

    def put(self, objects: Sequence[Object]) -> None:
        """Keep these, in the place of what was known of the same names."""
        with self._lock, self._errors(), self._db:
            self._db.execute("BEGIN")
            self._db.executemany(_PUT, map(_row, objects))

    def remove(self, bucket: str, name: str) -> None:
        """Forget one."""
        with self._lock, self._errors():
            self._db.execute(_REMOVE, (bucket, name))

    def next_generation(self, at_least: int) -> int:
        """A generation higher than any before it, also when the clock has been set back."""
        with self._lock:
            self._last = max(at_least, self._last + 1)
            return self._last

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise Unavailable(
                f"{self._path} cannot be used: {error}",
                fix="if its disk is well, end the server and move it away: types and metadata of objects are in it, no more",
            ) from error


def _row(found: Object) -> tuple[object, ...]:
    return (
        found.bucket,
        found.name,
        found.stamp.size,
        found.stamp.mtime_ns,
        found.stamp.inode,
        found.generation,
        found.metageneration,
        found.updated_ns,
        found.hashes.crc32c,
        found.hashes.md5,
        encode(found.said),
    )


def _object(row: sqlite3.Row) -> Object:
    return Object(
        bucket=row["bucket"],
        name=row["name"],
        stamp=Stamp(row["size"], row["mtime_ns"], row["inode"]),
        generation=row["generation"],
        metageneration=row["metageneration"],
        updated_ns=row["updated_ns"],
        said=decode(Said, row["said"]),
        hashes=Hashes(crc32c=row["crc32c"], md5=row["md5"]),
    )
