"""A database of every earlier schema becomes one of today's, with all that is in it; an upgrade that dies leaves the old one.

tests/data/schema_*.sql are dumps of databases that the Stoker of that schema has written: a job that has ended after its second
attempt, one that runs, one that waits and one that was cancelled.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.core.changes import MoveAttempt, Open
from stoker.core.errors import IllegalMove, Unavailable
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.core.world import World, apply
from stoker.store.base import Which
from stoker.store.migrate import NEWEST, STEPS
from stoker.store.schema import metadata
from stoker.store.sql import SqlStore
from tests.contract.store_contract import an_attempt

DATA = Path(__file__).parents[1] / "data"
OLD = sorted(path.stem.removeprefix("schema_") for path in DATA.glob("schema_*.sql"))


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database of an earlier schema."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((DATA / f"schema_{request.param}.sql").read_text())
    return path


def version(path: Path) -> str:
    with closing(sqlite3.connect(path)) as db:
        return str(db.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def tables(path: Path) -> dict[str, list[str]]:
    """Everything that a schema has: columns, keys, indexes with their conditions, triggers."""
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
    with engine.connect() as db:
        texts = db.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'trigger' OR sql LIKE '%INDEX%WHERE%'")
        found["texts"] = sorted(re.sub(r"\s+", " ", text) for (text,) in texts)
    engine.dispose()
    return found


def test_there_is_a_database_of_every_earlier_schema() -> None:
    steps = sorted(path.name[:4] for path in (STEPS / "versions").glob("0*.py"))
    assert steps == [*OLD, NEWEST], "dump a database of the schema that is not the newest any more"


def test_it_becomes_one_of_todays(old: Path, tmp_path: Path) -> None:
    SqlStore(old).close()
    SqlStore(tmp_path / "new.db").close()
    assert tables(old) == tables(tmp_path / "new.db")
    assert set(tables(old)) == {*metadata.tables, "texts"}
    assert version(old) == NEWEST


def test_all_that_is_in_it_is_found(old: Path) -> None:
    store = SqlStore(old)
    world, follower = store.world(), World()
    for line in store.story():
        apply(follower, line.change)
        follower.position = line.n
    assert follower == world and world.position == store.position() > 20
    assert set(world.jobs) == {"p/runs", "p/waits"} and set(world.attempts) == {"p/runs.1"} and len(world.nodes) == 2
    attempt, waits = world.attempts["p/runs.1"], world.jobs["p/waits"].waits
    assert (attempt.state, attempt.replicas[0].seen) == (AttemptState.RUNNING, ReplicaState.UP)
    assert waits is not None and waits.code == "NO_ROOM"
    listed = [(found.job.id, found.job.state, found.job.tries) for found in store.jobs("p")]
    assert listed == [
        ("p/cancelled", JobState.CANCELLED, 0),
        ("p/waits", JobState.QUEUED, 0),
        ("p/runs", JobState.ACTIVE, 1),
        ("p/done", JobState.SUCCEEDED, 2),
    ]
    done = store.jobs(
        "p", which=Which(states=frozenset({JobState.SUCCEEDED}), dialect=store.job("p/done").job.request.dialect)
    )
    assert [(found.attempt.id, found.attempt.cause) for found in done if found.attempt] == [
        ("p/done.2", Cause.COMPLETED)
    ]
    assert [job.id for job in store.ended(0.0, 9)] == ["p/done", "p/cancelled"]
    store.close()


@pytest.mark.parametrize("old", [schema for schema in OLD if schema < "0005"], indirect=True)
def test_options_become_the_variables_that_they_set(old: Path) -> None:
    asked = {"distribute": "auto", "precision": "", "learning_rate_rule": "none", "checkpoints": "600"}
    with closing(sqlite3.connect(old)) as db, db:
        ((text,),) = db.execute("SELECT body FROM jobs WHERE id = 'p/waits'")
        body = json.loads(text)
        body["spec"]["program"] |= asked
        db.execute("UPDATE jobs SET body = ? WHERE id = 'p/waits'", [json.dumps(body)])
    store = SqlStore(old)
    assert store.job("p/waits").job.spec.program.variables == {"STOKER_DISTRIBUTE": "auto", "STOKER_CHECKPOINTS": "600"}
    assert store.job("p/runs").job.spec.program.variables == {}
    store.close()


def test_what_was_held_is_held_and_life_goes_on(old: Path) -> None:
    store = SqlStore(old)
    with pytest.raises(IllegalMove):
        store.commit([Open(attempt=an_attempt("p/waits", device="1"))], by="loop")
    store.commit([Open(attempt=an_attempt("p/waits", device="0"))], by="loop")
    before, after = AttemptState.RUNNING, AttemptState.STOPPING
    stop = MoveAttempt(attempt="p/runs.1", before=before, after=after, at=20.0, cause=Cause.COMPLETED)
    store.commit([stop, MoveAttempt(attempt="p/runs.1", before=after, after=AttemptState.ENDED, at=20.0)], by="loop")
    lines = [line.n for line in store.story()]
    assert lines == list(range(1, len(lines) + 1))
    store.close()


KILLED = """
import os, signal, sys
from pathlib import Path
import sqlalchemy as sa
from stoker.store.sql import SqlStore
left = int(sys.argv[2])
def statement(connection, cursor, text, *rest):
    global left
    left -= text.split()[0] in ("CREATE", "ALTER", "INSERT", "UPDATE", "DROP")
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
sa.event.listen(sa.engine.Engine, "after_cursor_execute", statement)
SqlStore(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("old", ["0001"], indirect=True)
@pytest.mark.parametrize("statements", [1, 14, 30])
def test_an_upgrade_that_is_killed_leaves_the_old_one_which_is_upgraded_next_time(old: Path, statements: int) -> None:
    before = tables(old)
    ended = subprocess.run([sys.executable, "-c", KILLED, old, str(statements)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert tables(old) == before and version(old) == "0001"
    SqlStore(old).close()
    assert version(old) == NEWEST


def test_who_stands_by_upgrades_nothing(old: Path) -> None:
    before = version(old)
    with pytest.raises(Unavailable, match=f"has the schema {before}, this Stoker wants {NEWEST}"):
        SqlStore(old, upgrade=False)
    assert version(old) == before


def test_a_newer_schema_is_refused_with_a_way_out(database: Path | str) -> None:
    store = SqlStore(database)
    with store._engine.connect() as db:
        db.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        db.commit()
    store.close()
    with pytest.raises(Unavailable, match="newer Stoker"):
        SqlStore(database)
