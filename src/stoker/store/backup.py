"""A backup: one file with the rows of the database as of one moment, and with what else a home cannot do without.

    tables/jobs.jsonl …     the rows, one a line, the same whichever database they come from
    home/token …            files of the home
    manifest.json           the last: what was made when, with the size and the SHA-256 of every other member

It is written under another name and appears whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker import __version__
from stoker.core.errors import AlreadyExists, NotFound, StokerError, Unavailable

from .databases import Database, open_database, problem_of
from .migrate import NEWEST, schema_of
from .names import is_harmless
from .root import Root
from .schema import attempts, holdings, jobs, node_records, nodes, story

FORMAT = "stoker-backup-1"
MANIFEST = "manifest.json"
TABLES = (jobs, attempts, holdings, nodes, node_records, story)
ALWAYS = ("token", "replica.key", "tokens.json", "config.yaml", "site.toml", "job-users.json")
FILES = ("buckets", "uploads", "objects.db")
_ROWS_AT_ONCE = 1000


@dataclass(slots=True)
class Manifest:
    """What a backup says of itself."""

    made_at: float
    format: str = FORMAT
    schema: str = NEWEST
    stoker: str = __version__
    rows: dict[str, int] = field(default_factory=dict)
    live: int = 0  # jobs that had not ended
    members: dict[str, tuple[int, str]] = field(default_factory=dict)  # name → bytes, SHA-256

    @property
    def counts(self) -> dict[str, int]:
        """What is in it, in numbers."""

        def below(folder: str) -> int:
            return sum(name.startswith(f"home/{folder}/") for name in self.members)

        rows = {"jobs": self.rows.get("jobs", 0), "live": self.live, "story": self.rows.get("story", 0)}
        return {**rows, "logs": below("logs"), "files": below("buckets")}

    @property
    def summary(self) -> str:
        """What a backup holds, in words."""
        found = self.counts
        words = f"{_many(found['jobs'], 'job')} ({found['live']} live), {_many(found['story'], 'event')}"
        words += f", {_many(found['logs'], 'log')}"
        return words + (f", {_many(found['files'], 'file')}" if found["files"] else "")


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'s'[: count != 1]}"


def back_up(home: Path, database: str, target: Path, now: float, *, logs: bool = True, files: bool = False) -> Manifest:
    """Write a backup of a home, whose server may run. `database`: its setting. Raises AlreadyExists, NotFound, Unavailable."""
    if target.exists():
        raise AlreadyExists(
            f"{target} is there already", fix="give another name, or a folder, in which a new file is made"
        )
    if not target.parent.is_dir():
        raise Unavailable(f"there is no folder {target.parent}", fix="make it first, or choose another place")
    if not database and not (home / "stoker.db").exists():
        raise NotFound(f"there is nothing to back up in {home}", fix="set STOKER_HOME to the home that you mean")
    opened, root = open_database(database or home / "stoker.db"), Root(home)
    try:
        with _whole(target) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            manifest = Manifest(made_at=now)
            _add_tables(archive, manifest, opened, target.parent)
            for name in (*ALWAYS, *(("logs",) if logs else ()), *(FILES if files else ())):
                for found in _names(root, name):
                    _add_file(archive, manifest, root, found, target.parent)
            _add(archive, manifest, MANIFEST, io.BytesIO(json.dumps(asdict(manifest)).encode()))
    except sa.exc.SQLAlchemyError as error:
        raise problem_of(opened, "read", error) from error
    except OSError as error:
        raise Unavailable(
            f"{target} cannot be written: {error.strerror or error}",
            fix="choose a place with more room, or one of yours",
        ) from error
    finally:
        opened.engine.dispose()
    return manifest


def _add_tables(archive: tarfile.TarFile, manifest: Manifest, database: Database, folder: Path) -> None:
    with database.engine.connect() as db:
        db.exec_driver_sql(database.begin_read)
        found = schema_of(db)
        if found != NEWEST:
            raise StokerError(
                f"the database has the schema {found or 'of nobody'}, this Stoker wants {NEWEST}",
                fix="start the server once (stoker up), which upgrades it",
            )
        live = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.live == 1)
        manifest.live = db.execute(live).scalar_one()
        for table in TABLES:
            with tempfile.TemporaryFile(dir=folder) as rows:
                manifest.rows[table.name] = _write_rows(db, table, rows)
                rows.seek(0)
                _add(archive, manifest, f"tables/{table.name}.jsonl", rows)


def _write_rows(db: Connection, table: sa.Table, file: IO[bytes]) -> int:
    count = 0
    query = sa.select(table).order_by(*table.primary_key.columns)
    with db.execution_options(stream_results=True).execute(query).yield_per(_ROWS_AT_ONCE) as rows:
        for row in rows.mappings():
            file.write(json.dumps(dict(row)).encode() + b"\n")
            count += 1
    return count


def _names(root: Root, name: str) -> Iterator[str]:
    """The files there, in order. Links are left out: what they lead to is not of the home, or is in the backup anyway."""
    if root.is_file(name):
        yield name
        return
    try:
        entries = sorted(root.entries(name), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return  # it is not there, or went meanwhile
    for entry in entries:
        below = f"{name}/{entry.name}"
        if entry.is_folder:
            yield from _names(root, below)
        elif entry.is_file and is_harmless(below):
            yield below


def _add_file(archive: tarfile.TarFile, manifest: Manifest, root: Root, name: str, folder: Path) -> None:
    with suppress(FileNotFoundError):  # it went meanwhile, with its job
        if name == "objects.db":
            with tempfile.NamedTemporaryFile(dir=folder) as copy:
                _copy_sqlite(root.path / name, Path(copy.name))
                _add(archive, manifest, f"home/{name}", copy.file)
        else:
            with root.open(name) as file:
                _add(archive, manifest, f"home/{name}", file)


def _copy_sqlite(source: Path, target: Path) -> None:
    """A whole copy of a database that may be written meanwhile."""
    import sqlite3

    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def _add(archive: tarfile.TarFile, manifest: Manifest, name: str, file: IO[bytes]) -> None:
    """Add what the file holds now; what is appended meanwhile is not in it."""
    info = tarfile.TarInfo(name)
    info.size = file.seek(0, os.SEEK_END)
    info.mtime, info.mode = int(manifest.made_at), 0o600
    file.seek(0)
    reader = Hashing(file)
    archive.addfile(info, reader)
    if name != MANIFEST:
        manifest.members[name] = (info.size, reader.sha256())


class Hashing:
    """A file that is read, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self._hash.update(data)
        self.count += len(data)
        return data

    def sha256(self) -> str:
        """The hash of what was read."""
        return self._hash.hexdigest()


@contextmanager
def _whole(target: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is written and on the disk; if it fails, nothing is left."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, target)
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    finally:
        part.unlink(missing_ok=True)
