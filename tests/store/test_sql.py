"""What only the database does: survive, refuse a newer schema, fail well when the disk is full."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.core.changes import Cancel, Submit
from stoker.core.errors import StokerError, Unavailable
from stoker.core.states import AttemptState, JobState
from stoker.store.base import Which
from stoker.store.migrate import NEWEST
from stoker.store.rows import encode
from stoker.store.schema import metadata
from stoker.store.sql import SqlStore
from tests.builders import a_job
from tests.contract.store_contract import an_attempt


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


def test_a_newer_schema_is_refused_with_a_way_out(tmp_path: Path) -> None:
    SqlStore(tmp_path / "s.db").close()
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    db.close()
    with pytest.raises(Unavailable, match="newer Stoker"):
        SqlStore(tmp_path / "s.db")


def test_the_migrations_lead_to_the_schema(tmp_path: Path) -> None:
    """A database that walked every step equals one that was made at once."""
    from alembic import command
    from alembic.config import Config

    from stoker.store.migrate import STEPS

    def tables(path: Path) -> dict[str, list[str]]:
        engine = sa.create_engine(f"sqlite:///{path}")
        inspector = sa.inspect(engine)
        found = {
            name: sorted(
                [f"{c['name']} {c['type']} {c['nullable']} {c['primary_key']}" for c in inspector.get_columns(name)]
                + [f"{i['name']} {i['column_names']} {i['unique']}" for i in inspector.get_indexes(name)]
                + [str(u["column_names"]) for u in inspector.get_unique_constraints(name)]
            )
            for name in inspector.get_table_names()
            if name not in ("alembic_version", "sqlite_sequence")
        }
        engine.dispose()
        return found

    engine = sa.create_engine(f"sqlite:///{tmp_path / 'walked.db'}")
    config = Config()
    config.set_main_option("script_location", str(STEPS))
    with engine.begin() as db:
        config.attributes["connection"] = db
        command.upgrade(config, NEWEST)
    engine.dispose()
    SqlStore(tmp_path / "made.db").close()
    assert tables(tmp_path / "walked.db") == tables(tmp_path / "made.db")
    assert set(tables(tmp_path / "made.db")) == set(metadata.tables)


def test_what_an_older_stoker_wrote_is_found_by_its_lists(tmp_path: Path) -> None:
    """A database of the first schema, with a job that has ended after its second attempt."""
    from alembic import command
    from alembic.config import Config

    from stoker.store.migrate import STEPS

    engine = sa.create_engine(f"sqlite:///{tmp_path / 's.db'}")
    config = Config()
    config.set_main_option("script_location", str(STEPS))
    ended = replace(a_job("ended"), state=JobState.FAILED, tries=2)
    with engine.begin() as db:
        config.attributes["connection"] = db
        command.upgrade(config, "0001")
        for job, live in ((ended, 0), (a_job("new"), 1)):
            row = (job.id, live, encode(job))
            db.exec_driver_sql("INSERT INTO jobs (id, project, live, body) VALUES (?, 'p', ?, ?)", row)
        second = replace(an_attempt("p/ended", 2), state=AttemptState.ENDED)
        db.exec_driver_sql("INSERT INTO attempts VALUES ('p/ended.2', 'p/ended', 2, 0, ?)", (encode(second),))
    engine.dispose()
    store = SqlStore(tmp_path / "s.db")
    assert [(x.job, x.attempt) for x in store.jobs("p")] == [(a_job("new"), None), (ended, second)]
    assert [x.job for x in store.jobs("p", which=Which(states=frozenset({JobState.FAILED})))] == [ended]
    assert len(store.jobs("p", which=Which(dialect=a_job().request.dialect))) == 2
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
