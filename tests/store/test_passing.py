"""Which errors of a database pass by themselves: it is away or has no room. One that refuses us has decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.core.errors import NotYet, StokerError
from stoker.store.databases import open_database, problem_of
from stoker.store.sql import SqlStore
from tests.postgresql import PostgreSQL


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with PostgreSQL() as made:
        yield made


def refusal(where: Path | str) -> StokerError:
    with pytest.raises(StokerError) as refused:
        SqlStore(where)
    return refused.value


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("/postgres?", "/nobodys?"), "does not exist"),
        (("postgres@", "stranger@"), "does not exist"),
        (("postgres@/postgres?host=", "postgres@no-such-host.invalid/postgres?application_name="), "not known"),
        (("/postgres?", ":99999/postgres?"), "invalid port"),
        (("?host=", "?sslmode=bogus&host="), "sslmode"),
    ],
)
def test_a_setting_that_is_wrong_is_told_at_once(server: PostgreSQL, change: tuple[str, str], said: str) -> None:
    error = refusal(server.url.replace(*change))
    assert not isinstance(error, NotYet) and said in error.message and "setting `database`" in error.fix


@pytest.mark.parametrize("url", ["postgresql://u@127.0.0.1:1/x", "postgresql://u@/x?host=/tmp/no-such-folder"])
def test_one_that_is_away_may_come_back(url: str) -> None:
    error = refusal(url)
    assert isinstance(error, NotYet) and "goes on by itself" in error.fix


SAID = {
    "FATAL:  the database system is starting up": True,
    "FATAL:  the database system is shutting down": True,
    "FATAL:  the database system is in recovery mode": True,
    "FATAL:  sorry, too many clients already": True,
    "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute": True,
    "server closed the connection unexpectedly": True,
    "connection timeout expired": True,
    "could not translate host name: Temporary failure in name resolution": True,
    'FATAL:  password authentication failed for user "u"': False,
    "fe_sendauth: no password supplied": False,
    'FATAL:  no pg_hba.conf entry for host "10.0.0.1"': False,
    'FATAL:  permission denied for database "x"': False,
    "server does not support SSL, but SSL was required": False,
}


@pytest.mark.parametrize(("said", "passes"), SAID.items())
def test_what_it_says_tells_one_from_the_other(said: str, passes: bool) -> None:
    import psycopg

    database = open_database("postgresql://u@127.0.0.1:1/x")
    error = sa.exc.OperationalError("", {}, psycopg.OperationalError(f"connection failed: {said}"))
    assert isinstance(problem_of(database, "opened", error), NotYet) is passes


def test_a_file_that_is_none_is_no_question_of_room(tmp_path: Path) -> None:
    (tmp_path / "stoker.db").write_bytes(b"junk" * 5000)
    error = refusal(tmp_path / "stoker.db")
    assert not isinstance(error, NotYet) and "stoker restore FILE" in error.fix


def test_a_file_that_cannot_grow_is(tmp_path: Path) -> None:
    database = open_database(tmp_path / "stoker.db")
    with database.engine.connect() as db, pytest.raises(sa.exc.OperationalError) as full:
        db.exec_driver_sql("PRAGMA max_page_count=2")
        for n in range(50):
            db.exec_driver_sql(f"CREATE TABLE t{n} (x)")
    database.engine.dispose()
    assert isinstance(full.value.orig, sqlite3.OperationalError)
    error = problem_of(database, "written", full.value)
    assert isinstance(error, NotYet) and "free some disk space" in error.fix
