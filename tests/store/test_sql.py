"""What only the database does: survive, and fail well when the disk is full."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.core.changes import Cancel, Submit
from stoker.core.errors import StokerError, Unavailable
from stoker.store.schema import metadata
from stoker.store.sql import SqlStore
from tests.builders import a_job


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    first = SqlStore(tmp_path / "s.db")
    first.commit([Submit(job=a_job())], by="u")
    first.close()
    second = SqlStore(tmp_path / "s.db")
    assert second.job("p/j").job == a_job()
    assert second.position() == 1
    second.close()


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from stoker.core.changes import Submit
from stoker.store.sql import SqlStore
from tests.builders import a_job
store = SqlStore(Path(sys.argv[1]))
for n in range(100_000):
    store.commit([Submit(job=a_job(f"j{n}"))], by="u")
    print(n, flush=True)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "s.db")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert child.stdout is not None
    acknowledged = 0
    for line in child.stdout:
        acknowledged = int(line)
        if acknowledged >= 50:
            os.kill(child.pid, signal.SIGKILL)
            break
    acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.strip())])
    child.wait()
    child.stdout.close()
    store = SqlStore(tmp_path / "s.db")
    assert {f"p/j{n}" for n in range(acknowledged + 1)} <= set(store.world().jobs)
    store.close()


def test_a_full_disk_refuses_the_new_and_keeps_the_old_until_there_is_room_again(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "s.db")
    store.commit([Submit(job=a_job("first"))], by="u")
    with store._engine.connect() as db:  # SQLite's own way to be full: no page more than there are
        pages = [db.exec_driver_sql("PRAGMA page_count").scalar_one()]
    store._engine.dispose()
    sa.event.listen(store._engine, "checkout", lambda c, *_: c.execute(f"PRAGMA max_page_count={pages[0]}"))
    accepted = ["p/first"]
    with pytest.raises(Unavailable, match="full"):
        for n in range(200):
            store.commit([Submit(job=a_job(f"j{n}"))], by="u")
            accepted.append(f"p/j{n}")
    assert store.job("p/first").job == a_job("first")
    assert sorted(store.world().jobs) == sorted(accepted)
    pages[0] = 1 << 30
    store.commit([Submit(job=a_job("last"))], by="u")
    assert sorted(store.world().jobs) == sorted([*accepted, "p/last"])
    assert [line.n for line in store.story()] == list(range(1, len(accepted) + 2))
    store.close()


def test_what_is_acknowledged_is_synced(tmp_path: Path) -> None:
    """Every connection that the store writes with has SQLite's write-ahead log and a full sync after each transaction."""
    store = SqlStore(tmp_path / "s.db")
    found: list[tuple[str, int]] = []

    def look(connection: sa.engine.Connection) -> None:
        cursor = connection.connection.cursor()
        modes = (
            cursor.execute("PRAGMA journal_mode").fetchone()[0],
            cursor.execute("PRAGMA synchronous").fetchone()[0],
        )
        found.append(modes)

    sa.event.listen(store._engine, "commit", look)
    store.commit([Submit(job=a_job())], by="u")
    assert found == [("wal", 2)]
    store.close()


def test_a_server_of_postgresql_that_does_not_sync_is_told_to(postgresql_database: str) -> None:
    """Whatever the server's own habit is."""
    engine = sa.create_engine(
        sa.make_url(postgresql_database).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool
    )
    with engine.connect() as db:
        name = db.exec_driver_sql("SELECT current_database()").scalar_one()
        db.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
        db.commit()
    store = SqlStore(postgresql_database)
    with store._engine.connect() as db:
        assert db.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
    store.close()


def test_a_connection_that_was_lost_is_made_anew(postgresql_database: str) -> None:
    store = SqlStore(postgresql_database)
    store.commit([Submit(job=a_job())], by="u")
    engine = sa.create_engine(
        sa.make_url(postgresql_database).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool
    )
    with engine.connect() as db:
        ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        assert db.exec_driver_sql(f"{ended} AND datname = current_database()").scalar_one()
    store.commit([Submit(job=a_job("k"))], by="u")
    assert set(store.world().jobs) == {"p/j", "p/k"}
    store.close()


def test_what_is_wrong_with_the_way_to_a_database_is_told_without_its_password(
    postgresql_database: str, tmp_path: Path
) -> None:
    wrong = {
        "postgresql://me:canary@127.0.0.1:9/x": "connection failed",
        "postgresql://me:canary@no.such.host.invalid/x": "no.such.host.invalid",
        postgresql_database.replace("postgres@", "canary:canary@"): "does not exist",
        "mysql://me:canary@h/x": "does not know 'mysql'",
        "postgresql://me:canary@h:port/x": "not a URL",
    }
    for url, message in wrong.items():
        with pytest.raises(Unavailable, match=message) as refused:
            SqlStore(url)
        assert refused.value.fix and "canary" not in refused.value.fix
        assert url.startswith("postgresql://canary") or "canary" not in refused.value.message
    (tmp_path / "s.db").write_text("no database at all, but a text that is long enough to be looked at" * 100)
    with pytest.raises(Unavailable, match="file is not a database"):
        SqlStore(tmp_path / "s.db")


def test_what_cannot_be_stored_is_refused_and_the_next_is_served(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "s.db")
    store.commit([Submit(job=a_job())], by="u")
    with pytest.raises(StokerError, match="cannot be written"):
        store.commit([Cancel(job="p/j", why="\ud800", at=1.0)], by="u")
    store.commit([Cancel(job="p/j", why="fine", at=1.0)], by="u")
    assert store.job("p/j").job.wish_why == "fine"
    store.close()


def test_a_first_start_that_died_leaves_a_database_that_can_be_used(tmp_path: Path) -> None:
    """The tables are made in one transaction: another connection sees all of them or none."""
    seen: list[int] = []

    def look(*_: object, **__: object) -> None:
        other = sqlite3.connect(tmp_path / "s.db", timeout=0)
        seen.append(other.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        other.close()

    sa.event.listen(metadata, "after_create", look)
    try:
        SqlStore(tmp_path / "s.db").close()
    finally:
        sa.event.remove(metadata, "after_create", look)
    assert seen == [0]
