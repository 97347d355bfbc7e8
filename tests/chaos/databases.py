"""The databases of a campaign: read without Stoker's code, and taken away."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from tests.postgresql import PostgreSQL


class Database(Protocol):
    """Where a round's state is."""

    url: str
    """For the setting `database`."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        ...

    def problem(self) -> str:
        """What is broken in it; empty: nothing."""
        ...


class Sqlite:
    """A file in the home."""

    url = ""

    def __init__(self, home: Path) -> None:
        self._path = home / "stoker.db"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()

    def keep(self, file: Path) -> None:
        """Copy it as it is at one moment, while a server uses it."""
        file.unlink(missing_ok=True)
        with closing(sqlite3.connect(self._path)) as db, closing(sqlite3.connect(file)) as copy:
            db.backup(copy)

    def put(self, file: Path, *, aside: Path | None = None) -> None:
        """Let it be another one, while no server runs. `aside`: where it is to be kept itself."""
        if aside is not None:
            self.keep(aside)
        for part in self._path.parent.glob(f"{self._path.name}*"):
            part.unlink()
        shutil.copyfile(file, self._path)

    def problem(self) -> str:
        """What SQLite's own check says."""
        said = str(self.rows("PRAGMA integrity_check")[0][0])
        return "" if said == "ok" else said


class OnPostgresql:
    """A database on a server of our own, which can be away."""

    def __init__(self, server: PostgreSQL) -> None:
        self.server, self.url = server, server.url

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        import psycopg

        with psycopg.connect(self.url) as db:
            return db.execute(query.encode()).fetchall()

    def problem(self) -> str:
        """It refuses what is broken by itself."""
        return ""
