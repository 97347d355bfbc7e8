"""What differs between the databases: how one is opened, how its writers take turns, and what to do when it fails."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from stoker.core.errors import NotYet, StokerError, Unavailable

from .room import is_full

WRITE_LOCK = 0x53746F6B6572
"""PostgreSQL's lock by which writers take turns, so that the story has no gaps and is in the order of the commits."""

LEAD_LOCK = WRITE_LOCK + 1
"""PostgreSQL's lock of the server that leads."""

CONNECTIONS = 16
"""So many reads at a time, at most. A few threads on one interpreter keep it busy, and each connection costs memory."""

SILENT_SECONDS = 8
"""PostgreSQL ends a session that holds a lock and says nothing for so long: a server that hangs blocks nobody."""


_POOL: Mapping[str, Any] = {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_use_lifo": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database, and how it wants to be talked to."""

    engine: Engine
    begin_write: str  # one writer at a time
    begin_read: str  # one snapshot for all reads that follow
    advice: Mapping[str, str]  # what to do when it cannot be opened, read or written
    passes: Callable[[Exception], str]  # what to do about an error that may pass by itself; empty: it does not


def open_database(where: Path | str) -> Database:
    """Open a SQLite file, or what a URL such as postgresql://user@host/name leads to. Raises Unavailable."""
    return _open_sqlite(where) if isinstance(where, Path) else _open_postgresql(where)


def problem_of(database: Database, what: str, error: Exception) -> StokerError:
    """The error to show for one of the database's: its first line says what is wrong, and no password is in it."""
    said = str(getattr(error, "orig", error)).strip() or type(error).__name__
    password = database.engine.url.password
    if password:
        said = said.replace(str(password), "***")
    message, passing = f"the database cannot be {what}: {said.splitlines()[0]}", database.passes(error)
    return NotYet(message, fix=passing) if passing else Unavailable(message, fix=database.advice[what])


def _open_sqlite(path: Path) -> Database:
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 30}, **_POOL)
    _at_connect(
        engine,
        lambda connection: setattr(connection, "isolation_level", None),  # we say BEGIN ourselves
        *("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON", "PRAGMA busy_timeout=30000"),
        "PRAGMA cache_size=-500",  # KiB, of each connection: the system keeps the file's pages for all of them
    )
    return Database(
        engine=engine,
        begin_write="BEGIN IMMEDIATE",
        begin_read="BEGIN",
        advice={
            "opened": f"see whether {path} is yours to read and write; a backup is brought back by: stoker restore FILE",
            "read": "see whether the disk under $STOKER_HOME is all right; a backup is brought back by: stoker restore FILE",
            "written": "free some disk space under $STOKER_HOME; nothing that was accepted is lost",
        },
        passes=lambda error: _NO_ROOM.format(path.parent) if _lacks_room(path, error) else "",
    )


def _lacks_room(path: Path, error: Exception) -> bool:
    """Whether SQLite fails for want of room. It says so of the database alone, not of the files that it makes beside it."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
    return code == sqlite3.SQLITE_FULL or (
        code & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and is_full(path)
    )


def _open_postgresql(text: str) -> Database:
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise Unavailable("the setting `database` is not a URL", fix=_URL) from None
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise Unavailable(f"Stoker does not know {url.get_backend_name()!r} as a database", fix=_URL)
    keep = {"connect_timeout": "5", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
    keep |= {"tcp_user_timeout": "10000", "application_name": "stoker"}
    url = url.set(drivername="postgresql+psycopg")
    url = url.set(query={**keep, **url.query})
    try:
        engine = sa.create_engine(
            url, isolation_level="AUTOCOMMIT", pool_pre_ping=True, **_POOL
        )  # we say BEGIN ourselves
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"PostgreSQL needs the package psycopg, which is not installed ({error.name})",
            fix="pip install 'stoker[postgresql]', or leave the setting `database` empty",
        ) from None
    _at_connect(
        engine,
        lambda connection: None,
        f"SET idle_in_transaction_session_timeout = '{SILENT_SECONDS}s'",
        # Acknowledged is durable, whatever the server's own habit is. One that waits for its replicas as well may do so.
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
    )
    return Database(
        engine=engine,
        begin_write=f"BEGIN; SELECT pg_advisory_xact_lock({WRITE_LOCK})",
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        advice={
            "opened": "see whether it runs and lets this user in, and look at the setting `database`",
            "read": f"look after {_shown(url)}",
            "written": f"look after {_shown(url)}; nothing that was accepted is lost",
        },
        passes=lambda error: _AWAY.format(_shown(url)) if _is_away(error) else "",
    )


def _is_away(error: Exception) -> bool:
    """Whether PostgreSQL cannot be reached, or does not let anybody in now; not whether it refuses us."""
    found = getattr(error, "orig", error)
    if type(found).__module__.partition(".")[0] != "psycopg" or not isinstance(error, sa.exc.OperationalError):
        return False
    if state := getattr(found, "sqlstate", None):
        return str(state).startswith(_PASSING_STATES)
    said = str(found)  # while a connection is made there is no code
    return bool(_SOON.search(said)) or not _DECIDED.search(said)


_NO_ROOM = "free some disk space under {}: then it goes on by itself; nothing that was accepted is lost"
_AWAY = "look after {}, and at the setting `database`; it goes on by itself when it is let in"
_PASSING_STATES = ("08", "53", "57P")  # no connection; no resources; it ends, or begins
_SOON = re.compile(
    "starting up|shutting down|recovery|not yet accepting|too many clients|connection slots|Temporary failure"
)
_DECIDED = re.compile("FATAL|not known|invalid|no pg_hba|password|certificate|SSL|permission denied", re.IGNORECASE)
"""What is said by a server that refuses us, or of a setting that leads nowhere."""

_URL = "give one such as postgresql://user:password@host:5432/stoker, or leave it empty for SQLite in the home"


def _shown(url: URL) -> str:
    return f"the database {url.database or 'of that user'} on {url.host or url.query.get('host') or 'this machine'}"


def _at_connect(engine: Engine, prepare: Callable[[object], None], *statements: str) -> None:
    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: object, _record: object) -> None:
        prepare(connection)
        for statement in statements:
            connection.execute(statement)  # type: ignore[attr-defined]


def is_postgresql(db: Connection) -> bool:
    """Whether this is a connection to PostgreSQL."""
    return db.dialect.name == "postgresql"
