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


def test_a_full_disk_refuses_the_new_and_keeps_the_old(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "s.db")
    store.commit([Submit(job=a_job("first"))], by="u")
    with store._engine.connect() as db:  # SQLite's own way to be full: no page more than there are
        pages = db.exec_driver_sql("PRAGMA page_count").scalar_one()
    store._engine.dispose()
    sa.event.listen(store._engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count={pages}"))
    with pytest.raises(Unavailable, match="full"):
        for n in range(200):
            store.commit([Submit(job=a_job(f"j{n}"))], by="u")
    assert store.job("p/first").job == a_job("first")
    position = store.position()
    assert [line.n for line in store.story()] == list(range(1, position + 1))
    store.close()


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
