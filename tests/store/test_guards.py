"""What the databases refuse, whoever asks: raw statements, and two stores on one database that do not know of each other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.core.changes import Cancel, MoveAttempt, MoveJob, NodeSeen, Note, Open, Submit
from stoker.core.errors import Deposed, IllegalMove
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.store.guards import GUARDS
from stoker.store.sql import SqlStore
from tests.builders import a_job, a_node
from tests.conftest import wait_until
from tests.contract.store_contract import an_attempt

SOUND = """
INSERT INTO holdings (n, node, device, attempt, milli) VALUES (90, 'n9', '0', 'x', 400)
INSERT INTO holdings (n, node, device, attempt, milli) VALUES (91, 'n9', '0', 'x', 600)
UPDATE jobs SET hidden = 1, body = '{}' WHERE id = 'p/ended'
UPDATE attempts SET body = '{}' WHERE id = 'p/j.1'
UPDATE lead SET term = 2
"""

UNSOUND = {
    "a_device_is_held_once": "INSERT INTO holdings (n, node, device, attempt, milli) VALUES (99, 'n0', '0', 'x', 1)",
    "holdings_stay_as_they_are": "UPDATE holdings SET device = '7'",
    "a_job_begins_in_a_state": "INSERT INTO jobs (n, id, project, live, dialect, state, tries, hidden, body)"
    " VALUES (99, 'p/x', 'p', 0, '', 'QUEUED', 0, 0, '')",
    "a_job_is_in_a_state": "UPDATE jobs SET state = 'SLEEPING' WHERE id = 'p/j'",
    "an_ended_job_stays_so": "UPDATE jobs SET state = 'QUEUED', live = 1 WHERE id = 'p/ended'",
    "a_job_stays_itself": "UPDATE jobs SET id = 'p/other' WHERE id = 'p/j'",
    "a_job_stays": "DELETE FROM jobs WHERE id = 'p/ended'",
    "a_job_outlives_its_attempts": "UPDATE jobs SET state = 'FAILED', live = 0 WHERE id = 'p/j'",
    "an_attempt_is_of_a_live_job": "INSERT INTO attempts (id, job, number, live, body) VALUES ('e', 'p/ended', 2, 1, '')",
    "an_ended_attempt_stays_so": "UPDATE attempts SET live = 1 WHERE id = 'p/ended.1'",
    "an_attempt_stays": "DELETE FROM attempts WHERE id = 'p/ended.1'",
    "the_story_is_not_rewritten": "UPDATE story SET body = '{}' WHERE n = 1",
    "the_story_stays": "DELETE FROM story WHERE n = 1",
    "terms_grow": "UPDATE lead SET term = 1",
    "the_lead_stays": "DELETE FROM lead",
}
"""For each guard a statement that nothing else would refuse."""


def the_end(attempt: str) -> list[MoveAttempt]:
    """Any end of a placed attempt."""
    moves = ((AttemptState.PLACED, AttemptState.STOPPING), (AttemptState.STOPPING, AttemptState.ENDED))
    return [
        MoveAttempt(attempt=attempt, before=before, after=after, at=2.0, cause=Cause.COMPLETED)
        for before, after in moves
    ]


@pytest.fixture
def two(database: Path | str) -> Iterator[tuple[SqlStore, SqlStore]]:
    """Two stores on one database; a live job that holds a device, and one that has ended, are in it."""
    first, second = SqlStore(database), SqlStore(database)
    first.lead("first")
    first.commit([Submit(job=a_job("ended", gpus=2)), Open(attempt=an_attempt("p/ended"))], by="u")
    first.commit(
        [*the_end("p/ended.1"), MoveJob(job="p/ended", before=JobState.ACTIVE, after=JobState.SUCCEEDED, at=2.0)],
        by="loop",
    )
    first.commit([Submit(job=a_job(gpus=2)), Submit(job=a_job("k", gpus=2)), Open(attempt=an_attempt())], by="u")
    yield first, second
    first.close()
    second.close()


def test_each_guard_refuses_what_nothing_else_does(two: tuple[SqlStore, SqlStore]) -> None:
    assert set(UNSOUND) == {guard.name for guard in GUARDS}
    messages = {guard.name: guard.message for guard in GUARDS}
    engine = two[0]._engine
    for statement in SOUND.strip().splitlines():
        with engine.connect() as db:
            db.exec_driver_sql("BEGIN")
            db.exec_driver_sql(statement)
    for name, statement in UNSOUND.items():
        with engine.connect() as db, pytest.raises(sa.exc.IntegrityError, match=messages[name]):
            db.exec_driver_sql("BEGIN")
            db.exec_driver_sql(statement)


def test_a_second_server_cannot_do_what_the_first_has_made_illegal(two: tuple[SqlStore, SqlStore]) -> None:
    first, second = two
    position = first.position()
    for illegal in (
        Open(attempt=an_attempt(number=2, device="1")),  # a second live attempt
        Open(attempt=an_attempt("p/k")),  # on a device that is held
        MoveJob(job="p/ended", before=JobState.SUCCEEDED, after=JobState.QUEUED, at=3.0),
        the_end("p/ended.1")[0],
    ):
        with pytest.raises(IllegalMove):
            second.commit([illegal], by="loop")
    assert [line.n for line in second.story()] == list(range(1, position + 1))


def test_who_writes_by_hand_waits_for_the_turn(postgresql_database: str) -> None:
    """Two that insert at the same moment do not see each other's rows: the guard lets one in after the other."""
    store = SqlStore(postgresql_database)
    insert = "INSERT INTO holdings (node, device, attempt, milli) VALUES ('n0', '0', 'x', 600)"
    refused: list[Exception] = []

    def second() -> None:
        with store._engine.connect() as db:
            try:
                db.exec_driver_sql(insert)
            except sa.exc.IntegrityError as error:
                refused.append(error)

    with store._engine.connect() as db:
        db.exec_driver_sql("BEGIN")
        db.exec_driver_sql(insert)
        thread = threading.Thread(target=second)
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: not thread.is_alive() or db.exec_driver_sql(waits).scalar_one(), 5.0)
        db.commit()
        thread.join()
        assert refused and db.exec_driver_sql("SELECT sum(milli) FROM holdings").scalar_one() == 600
    store.close()


def test_a_job_that_would_end_with_a_live_attempt_is_refused_alone(two: tuple[SqlStore, SqlStore]) -> None:
    first, _ = two
    with pytest.raises(IllegalMove, match="an attempt of the job lives"):
        first.commit([MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.FAILED, at=2.0)], by="loop")
    first.commit([Cancel(job="p/j", why="w", at=3.0)], by="u")


def test_each_sees_what_the_other_writes(two: tuple[SqlStore, SqlStore]) -> None:
    first, second = two
    heard: list[int] = []
    second.listen(heard.append)
    assert second.nodes() == []
    position = first.commit([Cancel(job="p/k", why="w", at=3.0)], by="u")
    wait_until(lambda: second.position() == position, 5.0)
    assert heard[-1] == position
    position = first.commit([NodeSeen(node=a_node("n0", 4))], by="loop")
    wait_until(lambda: second.nodes() == [a_node("n0", 4)], 5.0)
    note = Note(attempt="p/j.1", role="chief", index=0, seen=ReplicaState.UP, at=3.0)
    assert second.commit([note], by="replica") == position + 1
    assert [line.n for line in first.story()] == list(range(1, position + 2))


def test_who_led_before_decides_nothing_any_more(two: tuple[SqlStore, SqlStore]) -> None:
    first, second = two
    mine, wish = 1, Cancel(job="p/k", why="w", at=3.0)
    first.commit([wish], by="loop", term=mine)
    assert second.lead("second") == 2
    leader = first.leader()
    assert leader is not None and (leader.term, leader.who) == (2, "second")
    with pytest.raises(Deposed):
        first.commit([Cancel(job="p/j", why="w", at=3.0)], by="loop", term=mine)
    first.commit([Cancel(job="p/j", why="w", at=3.0)], by="u")  # a user's wish is of no term


RACE = """
import sys
from pathlib import Path
from stoker.core.changes import Open, Submit
from stoker.core.errors import StokerError
from stoker.store.sql import SqlStore
from tests.builders import a_job
from tests.contract.store_contract import an_attempt
where, who = sys.argv[1:]
store = SqlStore(where if "://" in where else Path(where))
print("ready", flush=True)
sys.stdin.readline()
won = 0
for n in range(60):
    store.commit([Submit(job=a_job(f"own_{who}_{n}"))], by=who)
    try:
        store.commit([Open(attempt=an_attempt(f"p/j{n}", device=str(n % 20)))], by=who)
        won += 1
    except StokerError:
        pass
print(won)
store.close()
"""


def test_of_two_processes_one_gets_each_job_and_each_device(database: Path | str) -> None:
    """Both open an attempt for each of the same jobs, three jobs a device."""
    store = SqlStore(database)
    store.commit([Submit(job=a_job(f"j{n}", gpus=1)) for n in range(60)], by="u")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(database), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for who in "ab"
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    won = [0, 0]

    def run(n: int) -> None:
        won[n] = int(children[n].communicate("go\n", timeout=60)[0])

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world = store.world()
    assert sum(won) == len(world.attempts) == len(world.attempt_of) == 20
    held = [place.devices for attempt in world.attempts.values() for place in attempt.placements]
    assert len(set(held)) == len(held) == 20
    lines = list(store.story())
    assert [line.n for line in lines] == list(range(1, 60 + 120 + 20 + 1))
    store.close()
