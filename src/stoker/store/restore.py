"""Brings a backup back: it is read through and checked first, and what stands in its place is moved aside, never deleted."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.core.errors import AlreadyExists, BadSpec, StokerError, Unavailable, Violation

from .backup import ALWAYS, FILES, FORMAT, MANIFEST, TABLES, Hashing, Manifest, back_up
from .databases import is_postgresql, open_database, problem_of
from .guards import GUARDS
from .lead import lead_of
from .migrate import NEWEST, migrate, schema_of

_TOPS = frozenset({*ALWAYS, "logs", *FILES})
_PLAIN_PART = re.compile(r"[^/\\\x00-\x1f]+")
_LARGEST_MANIFEST_BYTES = 1 << 28
_ROWS_AT_ONCE = 500
_READ_BYTES = 1 << 20
UNFINISHED = "restore-unfinished"
"""This file is in a home from before the first change of a restore until after the last."""

FORGET = "forget-unknown"
"""By this file the next server knows that an admin has chosen this state: what it does not know is ended and put away."""

_AGAIN = (
    "the restore is not finished: mend what stopped it and restore again, with --force; "
    "what was there before is kept, in folders replaced-… of the home"
)
_OF_DATABASE = ("stoker.db", "stoker.db-wal", "stoker.db-shm")


def verify(file: Path) -> Manifest:
    """What a backup holds, once it is read to its end and every part is as it was written. Raises BadSpec; writes nothing."""
    found: dict[str, tuple[int, str]] = {}
    manifest: Manifest | None = None
    with _readable(file):
        for member, content in _members(file):
            if manifest is not None:
                raise _bad(file, "something follows its manifest")
            if member.name == MANIFEST:
                if member.size > _LARGEST_MANIFEST_BYTES:
                    raise _bad(file, "its manifest is too large")
                manifest = _manifest(file, content.read())
                continue
            if member.name in found:
                raise _bad(file, f"{member.name} is in it twice")
            reader = Hashing(content)
            while reader.read(_READ_BYTES):
                pass
            found[member.name] = (reader.count, reader.sha256())
    if manifest is None:
        raise _bad(file, "it is damaged" if _is_damaged(file) else "it has no end: it was not written whole")
    wrong = sorted(name for name in found.keys() | manifest.members if found.get(name) != manifest.members.get(name))
    if wrong:
        raise _bad(file, f"{wrong[0]} is not what was written")
    return manifest


def restore(file: Path, home: Path, database: str, *, force: bool = False) -> tuple[Manifest, Path | None]:
    """Bring a backup back into a home, and into its database. Returns what it held, and where what was there has gone.

    `database`: that home's setting. `force`: also where something is. Raises BadSpec for a file that is not a whole backup,
    AlreadyExists or Unavailable for a place that cannot take it.
    """
    manifest = verify(file)
    lead = lead_of(home, database)
    if not lead.take():
        raise Unavailable(f"a server uses {home}", fix="end it first: stoker down --all")
    try:
        size = sum(size for size, _ in manifest.members.values())
        if shutil.disk_usage(home).free < 2 * size:
            raise Unavailable(f"{home} has not the room: {2 * size >> 20} MB are needed", fix="free some disk space")
        there, has_rows = _in_the_way(home, database, manifest)
        if (there or has_rows) and not force:
            what = f"{home} has {', '.join(there[:3])}" if there else "the database has jobs"
            raise AlreadyExists(
                f"{what} already",
                fix="--to another folder, or --force, which moves what is there into a folder beside it",
            )
        try:
            (home / UNFINISHED).write_text(f"{file}\n")
            _sync(home / UNFINISHED, home)
            old = _move_aside(home, database, there, has_rows) if there or has_rows else None
            _bring(file, home, database)
            _finish(home, manifest)
        except StokerError as error:
            error.fix = _AGAIN
            raise
        except OSError as error:
            raise Unavailable(f"{home} cannot be written: {error.strerror or error}", fix=_AGAIN) from error
        return manifest, old
    finally:
        lead.release()


def check_whole(home: Path) -> None:
    """Raise Unavailable for a home into which a restore has not come to its end."""
    if (home / UNFINISHED).exists():
        raise Unavailable(f"a restore into {home} has not come to its end: not all is there that it brings", fix=_AGAIN)


def _bring(file: Path, home: Path, database: str) -> None:
    """Put what a backup holds into its places."""
    new = home / "stoker.db.new"
    for name in _OF_DATABASE:
        (home / name.replace("stoker.db", new.name)).unlink(missing_ok=True)  # of a restore that died
    if not database:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # its other files follow its mode
    opened = open_database(database or new)
    try:
        migrate(opened)
        with opened.engine.connect() as db, _readable(file):
            db.exec_driver_sql(opened.begin_write)
            for member, content in _members(file):
                top, _, rest = member.name.partition("/")
                if top == "tables":
                    try:
                        _fill(db, rest.removesuffix(".jsonl"), content)
                    except (ValueError, TypeError, RecursionError) as error:
                        raise _bad(file, f"{member.name} holds no rows: {error}") from error
                elif top == "home":
                    _extract(home, rest, content)
            _count_on(db)
            db.commit()
    except sa.exc.SQLAlchemyError as error:
        raise problem_of(opened, "written", error) from error
    finally:
        opened.engine.dispose()
    if not database:
        _sync(new)
        os.replace(new, home / "stoker.db")
    _use_database(home / "config.yaml", database)


def _finish(home: Path, manifest: Manifest) -> None:
    """Take the mark away, when all that was brought is on the disk."""
    files = [home / name.removeprefix("home/") for name in manifest.members if name.startswith("home/")]
    _sync(*{path for file in files for path in (file, *file.parents) if path.is_relative_to(home)}, home)
    (home / FORGET).touch()
    (home / UNFINISHED).unlink()
    _sync(home)


def _sync(*paths: Path) -> None:
    """Wait until these files and folders are on the disk."""
    for path in paths:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Say of a file that cannot be read, or not to its end, that it is no backup."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise BadSpec([Violation(str(file), "it is not a file")], fix="name the file that stoker backup has made")
        yield
    except zlib.error as error:
        raise _bad(file, f"it is damaged: {error}") from error
    except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise _bad(file, f"it cannot be read: {error}") from error
    except OSError as error:
        if str(error.filename) != str(file) and error.errno != errno.EIO:
            raise
        why = "there is no such file" if error.errno == errno.ENOENT else f"it cannot be read: {error.strerror}"
        raise BadSpec([Violation(str(file), why)]) from None


def _is_damaged(file: Path) -> bool:
    """Whether its bytes are not those that were written, rather than too few."""
    try:
        with gzip.open(file) as content:
            while content.read(_READ_BYTES):
                pass
    except EOFError:
        return False
    except (OSError, zlib.error):
        return True
    return False


def _members(file: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The members in order, each to be read before the next. Nothing but plain files of known names passes."""
    with tarfile.open(file, mode="r|gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or not _is_ours(member.name):
                raise _bad(file, f"{member.name[:200]!r} does not belong into a backup")
            yield member, content


def _is_ours(name: str) -> bool:
    if name == MANIFEST or name in {f"tables/{table.name}.jsonl" for table in TABLES}:
        return True
    parts = name.split("/")
    is_plain = all(_PLAIN_PART.fullmatch(part) and part not in (".", "..") for part in parts)
    return parts[0] == "home" and len(parts) > 1 and is_plain and parts[1] in _TOPS


def _manifest(file: Path, text: bytes) -> Manifest:
    try:
        read: Mapping[str, Any] = json.loads(text)
        if read["format"] != FORMAT or read["schema"] > NEWEST:
            raise _bad(file, "it was made by a newer Stoker", fix="upgrade Stoker")
        members = {str(name): (int(size), str(digest)) for name, (size, digest) in read["members"].items()}
        rows = {str(table): int(count) for table, count in read["rows"].items()}
        return Manifest(made_at=float(read["made_at"]), rows=rows, live=int(read["live"]), members=members)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _bad(file, "its manifest cannot be read") from None


def _in_the_way(home: Path, database: str, manifest: Manifest) -> tuple[list[str], bool]:
    """What stands in a home where the backup brings something, and whether there is something in the database."""
    brought = sorted({name.split("/")[1] for name in manifest.members if name.startswith("home/")})
    of_database = () if database else _OF_DATABASE
    there = [name for name in (*of_database, *brought) if (home / name).exists() or (home / name).is_symlink()]
    there = [name for name in there if name != "config.yaml" or not _says_only_where(home / name)]
    return there, bool(database) and _has_rows(database)


def _move_aside(home: Path, database: str, there: list[str], has_rows: bool) -> Path:
    """Make room for what the backup brings. Returns the folder in which everything is that was there."""
    old = Path(tempfile.mkdtemp(prefix=time.strftime("replaced-%Y%m%d-%H%M%S-"), dir=home))
    if has_rows:
        back_up(home, database, old / "database.tar.gz", time.time(), logs=False)
        _empty(database)
    for name in there:
        os.rename(home / name, old / name)
    return old


def _says_only_where(path: Path) -> bool:
    """Whether a config.yaml says nothing but where the database is: it was made to be restored into."""
    import yaml

    try:
        return set(yaml.safe_load(path.read_text()) or {}) <= {"database"}
    except (OSError, ValueError, TypeError, yaml.YAMLError):
        return False


def _has_rows(database: str) -> bool:
    opened = open_database(database)
    try:
        with opened.engine.connect() as db:
            return bool(schema_of(db)) and db.exec_driver_sql("SELECT 1 FROM story LIMIT 1").first() is not None
    except sa.exc.SQLAlchemyError as error:
        raise problem_of(opened, "read", error) from error
    finally:
        opened.engine.dispose()


def _empty(database: str) -> None:
    opened = open_database(database)
    with opened.engine.connect() as db:
        db.exec_driver_sql(opened.begin_write)
        db.exec_driver_sql(f"TRUNCATE {', '.join(table.name for table in TABLES)}")
        db.commit()
    opened.engine.dispose()


def _fill(db: Connection, name: str, content: IO[bytes]) -> None:
    """Put the rows into their table. Attempts that have ended pass by the guard that lets new ones in."""
    table = next(table for table in TABLES if table.name == name)
    guards = [guard for guard in GUARDS if guard.table == name == "attempts" and guard.event == "INSERT"]
    for guard in guards:
        of_table = " ON attempts" if is_postgresql(db) else ""
        db.exec_driver_sql(f"DROP TRIGGER {guard.name}{of_table}")
    lines = iter(content)
    while rows := [json.loads(line) for line in islice(lines, _ROWS_AT_ONCE)]:
        db.execute(sa.insert(table), rows)
    for guard in guards:
        db.exec_driver_sql(guard.postgresql_trigger() if is_postgresql(db) else guard.sqlite())


def _count_on(db: Connection) -> None:
    """Let PostgreSQL number new rows after those that came with their numbers; SQLite does so by itself."""
    if is_postgresql(db):
        for table in ("jobs", "holdings"):
            last = f"(SELECT coalesce(max(n), 0) + 1 FROM {table})"
            db.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('{table}', 'n'), {last}, false)")


def _extract(home: Path, name: str, content: IO[bytes]) -> None:
    """Write a file of the home, which is not there yet."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if name == "config.yaml":
        path.unlink(missing_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)


def _use_database(path: Path, database: str) -> None:
    """Let the restored settings name the database into which it was restored, and no other."""
    import yaml

    settings = yaml.safe_load(path.read_text()) if path.exists() else None
    if isinstance(settings, dict) and settings.get("database", "") != database:
        settings.pop("database", None)
        if database:
            settings["database"] = database
        path.write_text(yaml.safe_dump(settings, sort_keys=True))


def _bad(file: Path, why: str, *, fix: str = "choose another backup; nothing was changed") -> StokerError:
    return BadSpec([Violation(str(file), f"no whole backup of Stoker: {why}")], fix=fix)
