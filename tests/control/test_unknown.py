"""Work that the database has lost: found by what is on the disk, let be, and forgotten when an admin says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker.clock import ManualClock
from stoker.control.unknown import Unknown
from stoker.core.changes import Forget, MoveJob, Open, Submit
from stoker.core.errors import NotYet
from stoker.core.node import Node
from stoker.core.states import JobState
from stoker.engines.fake import FakeEngine
from stoker.store.logs import Logs
from stoker.store.memory import MemoryStore
from stoker.store.restore import FORGET
from tests.builders import a_job
from tests.contract.store_contract import an_attempt


@dataclass
class Shelf(FakeEngine):
    """An engine that has these attempts, some of which do not end."""

    has: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)
    moved: dict[str, Path] = field(default_factory=dict)

    def __init__(self, *has: str, stubborn: Collection[str] = ()) -> None:
        super().__init__([], ManualClock())
        self.has, self.stubborn, self.moved = set(has), set(stubborn), {}

    def be_found_at(self, server_url: str) -> None: ...

    def attempts(self) -> Collection[str]:
        return self.has

    def adopt(self, live: Collection[str], nodes: Sequence[Node] = (), *, unknown: Collection[str] = ()) -> None: ...

    def put_away(self, attempts: Collection[str], folder: Path) -> set[str]:
        for attempt in set(attempts) - self.stubborn:
            self.moved[attempt] = folder
        return set(attempts) & self.stubborn

    def listen(self, ring: Callable[[], None]) -> None: ...

    def problem(self) -> str:
        return ""


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    made = MemoryStore(ManualClock())
    made.commit([Submit(job=a_job("j")), Open(attempt=an_attempt("p/j"))], by="u")
    made.commit(
        [
            Submit(job=a_job("old")),
            MoveJob(job="p/old", before=JobState.QUEUED, after=JobState.CANCELLED, at=1.0),
            Forget(job="p/old"),
        ],
        by="u",
    )
    yield made
    made.close()


def unknown_of(home: Path, store: MemoryStore, engine: Shelf, **more: Any) -> Unknown:
    found = Unknown(home=home, store=store, logs=Logs(home / "logs"), engines={"local": engine}, **more)
    found.look()
    return found


def say(logs: Logs, attempt: str, text: str, n: int = 1) -> None:
    logs.append(attempt, "chief-0", [{"n": n, "t": 1.0, "s": "out", "m": text}])


def texts(logs: Logs, job: str) -> list[str]:
    return [line.text for line in logs.read(job)]


def test_what_the_database_knows_is_no_news(tmp_path: Path, store: MemoryStore) -> None:
    say(Logs(tmp_path / "logs"), "p/j.1", "hello")
    found = unknown_of(tmp_path, store, Shelf("p/j.1"))
    assert not found.ids and found.problem() == ""
    found.check()
    found.check_attempt("p/j.1")


def test_a_lost_end_keeps_new_jobs_out_and_says_what_to_choose(tmp_path: Path, store: MemoryStore) -> None:
    say(Logs(tmp_path / "logs"), "p/k.1", "of a job of which nothing else is left")
    found = unknown_of(tmp_path, store, Shelf("p/j.1", "p/j.2", "p/new.1"))
    assert found.attempts == {"p/j.2", "p/new.1"} and found.jobs == {"p/k"}
    assert "2 attempts (p/j.2, p/new.1) and 1 job (p/k)" in found.problem()
    assert "stoker restore FILE" in found.problem() and "--forget-unknown" in found.problem()
    with pytest.raises(NotYet, match="new jobs are not taken"):
        found.check()
    with pytest.raises(NotYet):
        found.check_attempt("p/j.2")
    found.check_attempt("p/j.1")


@pytest.mark.parametrize("by", ["flag", "restore"])
def test_what_is_forgotten_is_put_away_and_the_rest_of_a_log_stays(tmp_path: Path, store: MemoryStore, by: str) -> None:
    logs = Logs(tmp_path / "logs")
    say(logs, "p/j.1", "of an attempt that is known")
    say(logs, "p/j.2", "of one that is not")
    say(logs, "p/new.1", "of a job that is not")
    if by == "restore":
        (tmp_path / FORGET).touch()
    engine = Shelf("p/j.1", "p/j.2", "p/new.1")
    found = unknown_of(tmp_path, store, engine, forget=by == "flag")
    assert found.is_chosen
    found.put_away()
    assert not found.ids and not found.is_chosen, "it is chosen once"
    assert set(engine.moved) == {"p/j.2", "p/new.1"}
    (away,) = tmp_path.glob("unknown-*")
    assert set(engine.moved.values()) == {away / "runs"}
    logs = Logs(tmp_path / "logs")
    assert texts(logs, "p/j") == ["of an attempt that is known"] and texts(logs, "p/new") == []
    assert logs.last_number("p/j.2", "chief-0") == 0, "lines of the next one with this number are news"
    kept = Logs(away / "logs")
    assert len(texts(kept, "p/j")) == 2 and texts(kept, "p/new") == ["of a job that is not"]


def test_what_cannot_be_ended_stays_unknown(tmp_path: Path, store: MemoryStore) -> None:
    found = unknown_of(tmp_path, store, Shelf("p/a.1", "p/b.1", stubborn={"p/b.1"}), forget=True)
    found.put_away()
    assert found.attempts == {"p/b.1"} and found.is_chosen
    with pytest.raises(NotYet):
        found.check()
